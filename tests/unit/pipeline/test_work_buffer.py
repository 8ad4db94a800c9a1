"""How old waiting groups are, and what leaves the buffer for it."""

import pickle

import numpy as np
import pytest

from openrlhf.pipeline.work_buffer import Waiting, WorkBuffer
from openrlhf.types import Prompt, RewardOutcome, Rollout, RolloutGroup, Segment

PROMPT = Prompt(0, "prompt", "label")


def segment(*versions: int) -> Segment:
    """A prompt token, and a sampled one of each version."""
    actions = np.array([False] + [True] * len(versions))
    return Segment(
        token_ids=np.arange(len(actions), dtype=np.int64),
        action_mask=actions,
        loss_mask=actions,
        logprobs=np.where(actions, -1.0, 0.0).astype(np.float32),
        policy_versions=np.array([-1, *versions], dtype=np.int32),
    )


def waiting(*samples: list[Segment]) -> Waiting:
    outcome = RewardOutcome(1.0, 1.0)
    rollouts = [
        Rollout("0", f"0/{index}", PROMPT, tuple(segments), outcome, truncated=False)
        for index, segments in enumerate(samples)
    ]
    return Waiting(RolloutGroup("0", tuple(rollouts)), episode=0)


@pytest.mark.parametrize(
    ("samples", "staleness", "mixed"),
    [
        ([[segment(3, 3)], [segment(5)]], 4, 0.0),
        ([[segment(3, 4)], [segment(5)]], 4, 0.5),
        ([[segment(6), segment(2)], [segment()]], 5, 0.5),  # over two segments; a sample without a token
        ([[segment()]], 0, 0.0),
    ],
)
def test_the_oldest_token_of_a_group_says_how_old_it_is(samples, staleness, mixed):
    group = waiting(*samples)
    assert group.staleness(7) == staleness
    assert group.mixed_rate() == mixed


@pytest.mark.parametrize(
    "state", [lambda group: (group, 2), lambda group: [group, 2], lambda group: [group, 2, [(9, 9)]]]
)
def test_a_checkpoint_gives_back_what_waited_also_one_of_an_earlier_version(state):
    group = waiting([segment(3, 5)]).group
    restored = object.__new__(Waiting)
    restored.__setstate__(state(group))
    assert (restored.group, restored.episode, restored.staleness(7), restored.mixed_rate()) == (group, 2, 4, 1.0)


def test_the_pickle_of_what_waits_holds_only_what_is_needed():
    again = pickle.loads(pickle.dumps(waiting([segment(3)])))
    assert again.__getstate__() == (again.group, 0)
    assert again.staleness(4) == 1


def test_a_group_is_read_through_once_however_often_it_is_asked_for_its_age():
    own = segment(3)
    buffer = WorkBuffer([waiting([own])])
    own.policy_versions[:] = 9  # seen only by whoever reads the tokens again
    assert buffer.discard_stale(5, 2) == []
    (stale,) = buffer.discard_stale(6, 2)
    assert stale.staleness(6) == 3
    assert len(buffer) == 0
