"""Bad examples in the loop: which samples are trained on, and what the advantages were computed from."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from openrlhf.config.algo import AlgoConfig, BadExamplesConfig
from openrlhf.config.ppo import PPOConfig
from openrlhf.env.task_filters import FilterVerdict
from openrlhf.pipeline import bad_examples
from openrlhf.pipeline.ppo_sync import train
from openrlhf.pipeline.report import StepReport
from openrlhf.rl.packing import collate
from openrlhf.track.rollout_file import read_samples
from openrlhf.types import RolloutGroup
from tests.unit.rl.samples import group

ON = {"algo.bad_examples.filter_enable": True}


@pytest.fixture
def one_in_four_is_bad(monkeypatch):
    """The filters call sample 1 of each prompt bad (its reward is 1, as that of sample 3), and 0 and 2 good."""
    asked = []

    def verdict(rollout, max_tokens, base_perplexity=None):
        asked.append((max_tokens, base_perplexity))
        index = int(rollout.sample_id[-1])
        return FilterVerdict(good=index % 2 == 0, bad=index == 1)

    monkeypatch.setattr(bad_examples, "filter_verdict", verdict)
    return asked


def batches(step):
    return [batch for own in step for batch in own]


def rows(step) -> int:
    return sum(int((batch.rows >= 0).sum()) for batch in batches(step))


def loss_tokens(step) -> int:
    return sum(int(batch.loss_mask.sum()) for batch in batches(step))


def advantages(step) -> list[float]:
    found = np.concatenate([batch.advantages[batch.loss_mask] for batch in batches(step)])
    return sorted({round(float(value), 4) for value in found})


@pytest.mark.parametrize(
    ("flags", "num_rows", "num_tokens", "expected"),
    [
        # A step: 2 prompts with rewards 0, 1, 0, 1 and 3 tokens a sample.
        # Dropped: rewards 0, 0, 1 minus 1/3, then mean 0, variance (1/9 + 1/9 + 4/9)/3 = 2/9: -0.7071, 1.4142.
        ({}, 6, 18, [-0.7071, 1.4142]),
        # Else rewards minus 1/2; of -0.5, -0.5, 0.5 (mean -1/6, variance 2/9): the same numbers.
        ({"algo.bad_examples.loss_mask_enable": True}, 8, 18, [-0.7071, 1.4142]),
        ({"algo.bad_examples.advantage_mask": "before"}, 6, 18, [-0.7071, 1.4142]),
        # Normalised with it: mean 0, variance 1/4.
        ({"algo.bad_examples.advantage_mask": "after"}, 6, 18, [-1.0, 1.0]),
        ({"algo.bad_examples.advantage_mask": "after", "algo.bad_examples.loss_mask_enable": True}, 8, 18, [-1.0, 1.0]),
        ({"algo.bad_examples.advantage_mask": "skip"}, 8, 24, [-0.7071, 1.4142]),
    ],
)
def test_modes(rig, one_in_four_is_bad, flags, num_rows, num_tokens, expected):
    run = rig(ON | flags)
    train(run.job)
    for step in run.policy.steps:
        assert (rows(step), loss_tokens(step)) == (num_rows, num_tokens)
        assert advantages(step) == expected
        assert batches(step)[0].totals.tokens == num_tokens  # masked tokens leave the denominator too
    for logged in run.rows():
        assert (logged["rollout/bad_example_rate"], logged["rollout/good_sample_rate"]) == (0.25, 0.5)


def test_a_sample_without_segments_shifts_no_mark(one_in_four_is_bad, monkeypatch):
    full = group("a", [0, 1, 0, 1])
    empty = replace(full.rollouts[0], segments=())
    groups = [RolloutGroup("a", (empty, *full.rollouts[1:])), group("b", [0, 1])]
    experience = collate(groups)
    experience.ref_logprobs = np.full(experience.sequences.shape, -2, dtype=np.float32)
    job = SimpleNamespace(config=PPOConfig(algo=AlgoConfig(bad_examples=BadExamplesConfig(filter_enable=True))))
    bad_examples.mark(job, groups, experience, StepReport())
    # Rows: a/1, a/2, a/3, b/0, b/1; sample 1 of each prompt is bad.
    assert experience.bad_examples.tolist() == [True, False, False, False, True]
    assert [perplexity for _, perplexity in one_in_four_is_bad] == pytest.approx([1.0, *[np.exp(2)] * 5])


def test_off_asks_nobody(rig, one_in_four_is_bad):
    run = rig()
    train(run.job)
    assert one_in_four_is_bad == []
    assert rows(run.policy.steps[0]) == 8


def test_the_reference_tells_the_perplexity(rig, one_in_four_is_bad):
    run = rig(ON | {"algo.kl.init_coef": 0.1, "algo.bad_examples.advantage_mask": "after"})
    train(run.job)
    # Asked twice: before, and with the fake reference's logprob of -2 per token. The limit is rollout.max_new_tokens.
    assert {limit for limit, _ in one_in_four_is_bad} == {3}
    known = [perplexity for _, perplexity in one_in_four_is_bad if perplexity is not None]
    assert known == pytest.approx([np.exp(2)] * 16)


@pytest.mark.parametrize("flags", [{}, {"algo.bad_examples.loss_mask_enable": True}])
def test_nothing_but_bad_examples_is_no_update(rig, monkeypatch, flags, caplog):
    monkeypatch.setattr(bad_examples, "filter_verdict", lambda *_: FilterVerdict(good=False, bad=True))
    run = rig(ON | flags)
    train(run.job)
    assert run.policy.steps == []
    assert run.job.version == 0
    assert "bad examples" in caplog.text
    assert [row["rollout/bad_example_rate"] for row in run.rows()] == [1.0, 1.0]


def test_an_optimiser_step_of_bad_examples_alone_is_left_out(rig, monkeypatch):
    # 8 samples of a rollout in optimiser steps of 1: the 2 that are bad would be steps without a loss token.
    verdict = lambda rollout, *_: FilterVerdict(None, rollout.sample_id.endswith("/1"))  # noqa: E731
    monkeypatch.setattr(bad_examples, "filter_verdict", verdict)
    run = rig(ON | {"algo.bad_examples.loss_mask_enable": True, "train.batch_size": 1})
    train(run.job)
    assert len(run.policy.steps) == 2 * 6


def test_stored_rollouts_keep_bad_examples_too(rig, one_in_four_is_bad, tmp_path):
    run = rig(ON | {"algo.bad_examples.advantage_mask": "after", "logger.num_rollouts_stored": 8})
    train(run.job)
    stored = read_samples(tmp_path / "run/rollouts/step_000001.jsonl.gz")
    by_index = {sample["sample_id"][-1]: sample["segments"][0]["advantages"] for sample in stored}
    assert by_index["1"] == [0.0] * 5
    assert by_index["3"] == [0.0, 0.0, 1.0, 1.0, 1.0]
