"""What an executor of the user's own returns: whatever would end the run in the trainer costs one sample here."""

import dataclasses

import numpy as np
import pytest
import torch

from openrlhf.rl.metrics import rollout_metrics
from openrlhf.rl.packing import collate
from openrlhf.rollout.agent import AgentExecutorBase
from openrlhf.rollout.generator import RolloutGenerator
from openrlhf.types import Prompt, RewardOutcome, RolloutStatus, SamplingParams, Segment, Status, Trajectory, Turn
from tests.fakes import FakeImageTokens, FakeTokenizer, ScriptedEngine, completion
from tests.pictures import plain

PROMPT = Prompt(7, "ab")
MAX_LENGTH = 50


def segment(length: int = 5, turns: tuple[Turn, ...] = ()) -> Segment:
    """Three tokens of a prompt, then actions."""
    acted = np.arange(length) >= 3
    logprobs = np.where(acted, -1.0, 0.0).astype(np.float32)
    return Segment(np.full(length, 97), acted, acted, logprobs, np.where(acted, 0, -1).astype(np.int32), turns)


def trajectory(*segments: Segment, facts=None, **logs) -> Trajectory:
    return Trajectory(segments or (segment(),), False, RewardOutcome(1.0, 1.0, extra_logs=logs), facts or {})


async def run(*returned, vision: FakeImageTokens | None = None):
    """The group of an executor whose sample i returns the i-th of these, and how many were counted as failures."""

    class Own(AgentExecutorBase):
        async def execute(self, prompt, label, sampling_params, *args, **kwargs):
            return returned[sampling_params.seed]

    scripted = ScriptedEngine(lambda call: completion("x"), vision)
    running = RolloutGenerator(scripted, Own(), None, FakeTokenizer(), MAX_LENGTH, tolerate_failures=True)
    result = await running.run_group(PROMPT, "g", len(returned), SamplingParams(max_tokens=8), [*range(len(returned))])
    return result.group, sum(running.failures.counts().values())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"rewards": 1.0}, "returned a dict; expected a Trajectory"),
        (None, "returned a NoneType; expected a Trajectory"),
        (dataclasses.replace(trajectory(), outcome=1.0), "an outcome of type float; expected a RewardOutcome"),
        (Trajectory(({"token_ids": [1]},), False), "a segment 1 of type dict; expected a Segment"),
        (trajectory(segment(), segment(51)), "a segment 2 of 51 tokens; max_length is 50"),
        (trajectory(segment(turns=(Turn(3, 99, 1.0),))), "a turn [3, 99), which its 5 tokens do not have"),
        (trajectory(segment(turns=(Turn(-2, 5),))), "a turn [-2, 5), which its 5 tokens do not have"),
        (trajectory(segment(turns=(Turn(0, 2, 1.0),))), "a turn [0, 2) that has a reward but no action token"),
        (trajectory(segment(turns=(Turn(3, 5, float("nan")),))), "whose reward nan is not a finite number"),
        (trajectory(segment(turns=(Turn(3, 5, 1e39),))), "whose reward 1e+39 is not a finite number"),
        (trajectory(segment(turns=(Turn(3, 5, "1"),))), "whose reward 1 is not a finite number"),
        (trajectory(calls="x"), "extra_logs['calls'] of type str; expected a number that a float holds"),
        (trajectory(calls=None), "extra_logs['calls'] of type NoneType; expected a number that a float holds"),
        (trajectory(calls=10**400), "extra_logs['calls'] of type int; expected a number that a float holds"),
        (dataclasses.replace(trajectory(), facts=[("runs", 1)]), "facts of type list; expected a dict of numbers"),
        (trajectory(facts={"runs": "x"}), "facts['runs'] of type str; expected a number that a float holds"),
    ],
)
async def test_what_the_trainer_could_not_take_leaves_one_sample_ungraded(wrong, says):
    group, counted = await run(trajectory(), wrong)
    kept, lost = group.rollouts
    assert (kept.outcome.status, kept.status) == (Status.GRADED, RolloutStatus.COMPLETE)
    assert (lost.outcome.status, lost.segments) == (Status.UNGRADED, ())
    assert lost.outcome.reason.startswith("Own.execute returned ")
    assert says in lost.outcome.reason
    assert counted == 1


@pytest.mark.parametrize(
    ("image", "kind"), [(plain(), "Image"), (b"\x89PNG", "bytes"), ("a.png", "str"), (None, "NoneType")]
)
async def test_an_image_that_is_not_read_leaves_one_sample_ungraded(image, kind):
    shown = dataclasses.replace(segment(), images=(image,))
    group, counted = await run(trajectory(), trajectory(shown), vision=FakeImageTokens())
    kept, lost = group.rollouts
    assert (kept.outcome.status, lost.outcome.status, counted) == (Status.GRADED, Status.UNGRADED, 1)
    assert f"a segment 1 with an image 1 of type {kind}; expected an EncodedImage" in lost.outcome.reason
    assert "read_image of openrlhf.utils.agent makes one" in lost.outcome.reason


async def test_what_the_trainer_takes_is_kept():
    turns = (Turn(0, 2), Turn(3, 4, 0.25), Turn(4, 5, np.float32(0.5)))
    logs = {"a": 1, "b": True, "c": np.float32(2), "d": torch.tensor(3.0), "e": float("nan")}
    group, counted = await run(trajectory(segment(MAX_LENGTH), segment(turns=turns), facts={"runs": 1}, **logs))
    assert counted == 0
    assert group.rollouts[0].outcome.status is Status.GRADED
    assert collate([group]).turn_rewards[1].sum() == 0.75
    assert rollout_metrics([group])["rollout/extra/d"] == 3.0


@pytest.mark.parametrize(
    ("reward", "score"), [(1e39, 0.0), (0.0, -1e39), (10**400, 0.0), (float("inf"), 0.0)], ids=range(4)
)
def test_an_outcome_holds_what_float32_holds(reward, score):
    with pytest.raises(ValueError, match="RewardOutcome: status graded"):
        RewardOutcome(reward, score)
    assert RewardOutcome(reward, score, Status.UNGRADED).status is Status.UNGRADED
    assert RewardOutcome(3.4e38, -3.4e38).status is Status.GRADED
