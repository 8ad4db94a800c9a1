"""What the ledger is told: trained is only what was in the loss."""

from dataclasses import replace

import numpy as np
import pytest

from openrlhf.data.ledger import PromptState
from openrlhf.env.task_filters import FilterVerdict
from openrlhf.pipeline import bad_examples, ppo_async, ppo_sync
from openrlhf.pipeline.fate import fates, refused
from openrlhf.rl.packing import collate
from openrlhf.types import Prompt, RewardOutcome, Rollout, RolloutGroup, Segment

TRAINED, FILTERED, FAILED = PromptState.TRAINED, PromptState.FILTERED, PromptState.FAILED
ASYNC = {"train.async_enable": True, "train.async_queue_size": 1}


def group(name: str, *segments: int, outcome: RewardOutcome = RewardOutcome(1.0, 1.0)) -> RolloutGroup:  # noqa: B008
    """A sample for each number of segments; a segment is one token that was given and two that were sampled."""
    actions = np.array([False, True, True])
    part = Segment(np.arange(3), actions, actions, np.zeros(3, np.float32), np.where(actions, 0, -1).astype(np.int32))
    rollouts = [
        Rollout(name, f"{name}/{index}", Prompt(0, "p"), (part,) * count, outcome, truncated=False)
        for index, count in enumerate(segments)
    ]
    return RolloutGroup(name, tuple(rollouts))


def test_a_group_is_trained_if_one_of_its_segments_is_in_the_loss():
    groups = [group("a", 1, 2), group("b", 1), group("c", 3), group("d", 1)]
    experience = collate(groups[:3])  # rows: a 0 to 2, b 3, c 4 to 6
    experience.loss_mask[[0, 1, 3, 4, 5]] = False
    assert fates(groups, groups[:3], experience) == {"a": TRAINED, "b": FAILED, "c": TRAINED, "d": FILTERED}
    experience.bad_examples = np.zeros(7, bool)  # filters were asked, so it was they
    assert fates(groups, groups[:3], experience)["b"] is FILTERED


def test_without_a_verdict_it_failed_and_else_a_filter_refused_it():
    no_verdict = group("a", 1, outcome=RewardOutcome.ungraded("grader down"))
    assert (refused(no_verdict), refused(group("b", 1))) == (FAILED, FILTERED)
    assert fates([no_verdict, group("b", 1)], [], None) == {"a": FAILED, "b": FILTERED}


def test_a_group_without_any_token_failed(rig):
    assert refused(group("a", 0, 0)) is FAILED
    assert refused(group("a", 0, 1)) is FILTERED


@pytest.mark.parametrize("filtering", [False, True])
@pytest.mark.parametrize("how", [{}, ASYNC], ids=["sync", "async"])
@pytest.mark.parametrize("silent", [{1}, {0, 1, 2, 3}])
def test_prompts_whose_samples_have_no_token_failed_and_end_nothing(rig, how, filtering, silent):
    run = rig({"reward.ungraded": "zero", "algo.dynamic_filtering_enable": filtering} | how)
    whole = run.engines._rollout

    def unspoken(request, index):
        rollout = whole(request, index)
        return replace(rollout, segments=()) if request.prompt.prompt_id in silent else rollout

    run.engines._rollout = unspoken
    (ppo_async if how else ppo_sync).train(run.job)
    assert [run.job.ledger.state(0, i) for i in range(4)] == [FAILED if i in silent else TRAINED for i in range(4)]
    assert sum(row["rollout/num_samples"] for row in run.rows()) == 4 * (4 - len(silent))


@pytest.mark.parametrize("how", [{}, ASYNC], ids=["sync", "async"])
@pytest.mark.parametrize("flags", [{}, {"algo.bad_examples.loss_mask_enable": True}], ids=["dropped", "masked"])
def test_prompts_whose_samples_are_all_bad_examples_are_filtered(rig, monkeypatch, flags, how):
    def verdict(rollout, *_):
        return FilterVerdict(good=None, bad=rollout.prompt.prompt_id == 1)

    monkeypatch.setattr(bad_examples, "filter_verdict", verdict)
    run = rig({"algo.bad_examples.filter_enable": True} | flags | how)
    (ppo_async if how else ppo_sync).train(run.job)
    assert [run.job.ledger.state(0, prompt_id) for prompt_id in range(4)] == [TRAINED, FILTERED, TRAINED, TRAINED]


def test_a_step_of_bad_examples_alone_trains_no_prompt(rig, monkeypatch):
    monkeypatch.setattr(bad_examples, "filter_verdict", lambda *_: FilterVerdict(good=False, bad=True))
    run = rig({"algo.bad_examples.filter_enable": True, "algo.bad_examples.loss_mask_enable": True})
    ppo_sync.train(run.job)
    assert run.policy.steps == []
    assert run.job.ledger.counts()[FILTERED] == 4
