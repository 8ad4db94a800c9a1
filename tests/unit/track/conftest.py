import numpy as np
import pytest

from openrlhf.types import Prompt, RewardOutcome, Rollout, RolloutGroup, Segment, Turn

GRADED = RewardOutcome(1.0, 1.0)


def _make_group(name: str, size: int, outcome: RewardOutcome = GRADED) -> RolloutGroup:
    segment = Segment(
        token_ids=np.array([5, 6, 7]),
        action_mask=np.array([False, True, True]),
        loss_mask=np.array([False, True, False]),
        logprobs=np.array([0.0, -0.5, -0.25], dtype=np.float32),
        policy_versions=np.array([-1, 3, 3], dtype=np.int32),
        turns=(Turn(1, 3, 0.5),),
    )
    prompt = Prompt(prompt_id=4, text=f"prompt {name}", label="label")
    return RolloutGroup(
        name, tuple(Rollout(name, f"{name}-{i}", prompt, (segment,), outcome, False) for i in range(size))
    )


@pytest.fixture
def make_group():
    """make_group(name, size[, outcome]): a group whose samples are one segment of three tokens, two of them sampled."""
    return _make_group
