"""From samples to the numbers of a datasource; expected values by hand."""

import numpy as np
import pytest

from openrlhf.config.evaluate import EvaluatedPrompts
from openrlhf.pipeline.evaluation.responses import failure_of, response_row
from openrlhf.pipeline.evaluation.summary import summarise, table
from openrlhf.types import Prompt, RewardOutcome, Rollout, Segment, Status


def sample(
    prompt_id: int,
    score: float | None,
    *,
    source: str = "a",
    length: int = 2,
    truncated: bool = False,
    status: Status = Status.GRADED,
    reason: str = "",
    **logs: float,
) -> Rollout:
    actions = np.arange(length + 1) > 0
    segment = Segment(
        token_ids=np.arange(length + 1),
        action_mask=actions,
        loss_mask=actions,
        logprobs=np.zeros(length + 1, np.float32),
        policy_versions=np.zeros(length + 1, np.int32),
    )
    outcome = (
        RewardOutcome.ungraded(reason or "down") if score is None else RewardOutcome(score, score, status, reason, logs)
    )
    prompt = Prompt(prompt_id, "p", datasource=source)
    return Rollout(str(prompt_id), f"{prompt_id}/0", prompt, (segment,), outcome, truncated)


def rows(*samples: Rollout) -> list:
    return [response_row(rollout, failure_of(rollout, 0.5)) for rollout in samples]


def numbers(samples: list[Rollout], **asked: object) -> dict:
    return summarise(rows(*samples), EvaluatedPrompts.model_validate({"n_samples_per_prompt": 2} | asked), seed=0)


@pytest.mark.parametrize(
    ("rollout", "kind"),
    [
        (sample(0, 1.0), None),
        (sample(0, 1.0, truncated=True), None),  # the score decides
        (sample(0, 0.0), "wrong"),
        (sample(0, 0.0, truncated=True), "truncated"),
        (sample(0, 0.0, code_runs=2, code_errors=2), "code errors"),
        (sample(0, 0.0, code_runs=2, code_errors=1), "wrong"),
        (sample(0, 0.0, status=Status.FAILED, reason="line 12: crash"), "broken: line N: crash"),
        (sample(0, None, reason="no answer after 3.5 s"), "no verdict: no answer after N s"),
    ],
)
def test_the_kind_of_a_failure(rollout, kind):
    assert failure_of(rollout, 0.5) == kind


def test_rates_by_datasource_and_together():
    samples = [sample(0, 1.0), sample(0, 0.0, length=4), sample(1, 0.0), sample(1, 0.0)]
    samples += [sample(2, 1.0, source="b"), sample(2, 1.0, source="b")]
    found = numbers(samples, pass_at=(1, 2))
    assert set(found) == {"a", "b", "all"}
    assert found["a"]["mean@2"]["value"] == found["a"]["pass@1"]["value"] == 0.25
    assert found["a"]["pass@2"]["value"] == 0.5
    assert found["all"]["mean@2"]["value"] == pytest.approx(1.5 / 3)
    assert found["a"]["mean@2"]["low"] <= 0.25 <= found["a"]["mean@2"]["high"]
    assert found["a"]["response_length"] == pytest.approx(
        {"mean": 2.5, "p10": 2.0, "median": 2.0, "p90": 3.4, "max": 4.0}
    )
    assert found["a"]["failures"] == {"wrong": 3}
    assert (found["b"]["prompts"], found["b"]["samples"]) == (1, 2)


def test_samples_without_a_verdict_are_counted_and_left_out():
    found = numbers([sample(0, 1.0), sample(0, None), sample(1, None), sample(1, None)], pass_at=(1, 2))["a"]
    assert found["ungraded_rate"] == 0.75
    assert (found["mean@2"]["value"], found["mean@2"]["prompts"]) == (1.0, 1)
    assert found["pass@2"] == {"value": None, "low": None, "high": None, "prompts": 0}  # nobody has two verdicts
    assert found["failures"] == {"no verdict: down": 3}
    assert found["prompts"] == 2


def test_logs_are_averaged_where_they_are_numbers():
    found = numbers([sample(0, 1.0, code_runs=2, rate=float("nan")), sample(0, 1.0, code_runs=4, rate=0.5)])["a"]
    assert found["extra_logs"] == {"code_runs": 3.0, "rate": 0.5}


def test_the_table_has_a_line_per_datasource():
    asked = EvaluatedPrompts(n_samples_per_prompt=2)
    head, line = table(numbers([sample(0, 0.0), sample(0, None)]), asked).splitlines()
    assert head.split()[:4] == ["datasource", "prompts", "mean@2", "(95%)"]
    # One prompt of score 0: Wilson's interval of 0 in 1 is [0, 0.793].
    assert line.split()[:5] == ["a", "1", "0.000", "[0.000,", "0.793]"]
    assert line.endswith("wrong 1, no verdict: down 1") or line.endswith("no verdict: down 1, wrong 1")
