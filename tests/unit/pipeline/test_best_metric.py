"""Which number of an evaluation rates a checkpoint."""

import pytest

from openrlhf.data.prompts import PromptSet
from openrlhf.pipeline.best_metric import check_best_metric, rating
from openrlhf.pipeline.checkpoint_store import Metric
from openrlhf.pipeline.evaluate import evaluate
from openrlhf.types import Prompt


@pytest.mark.parametrize("samples", [1, 3])
def test_whatever_an_evaluation_gives_may_be_named(rig, samples):
    held_out = PromptSet([Prompt(0, "a", datasource="x"), Prompt(1, "b", datasource="y")])
    run = rig({"eval.dataset": "x", "eval.n_samples_per_prompt": samples}, eval_prompts=held_out)
    found = evaluate(run.job)
    assert {name.split("_")[1] for name in found} >= {"x", "y"}
    for name in found:
        check_best_metric(name, held_out, samples)


@pytest.mark.parametrize(
    ("key", "evaluation", "expected"),
    [
        ("", {"eval_b_pass1": 0.5, "eval_a_pass1": 0.25, "eval_a_pass4": 1.0}, Metric("eval_a_pass1", 0.25)),
        ("", {"eval_num_samples": 4.0}, None),
        ("none", {"eval_a_pass1": 0.25}, None),
        ("eval_a_pass4", {"eval_a_pass1": 0.25, "eval_a_pass4": 1.0}, Metric("eval_a_pass4", 1.0)),
        ("eval_a_pass4", {}, None),
    ],
)
def test_rating(key, evaluation, expected, caplog):
    assert rating(key, evaluation) == expected
    assert caplog.text == ""


def test_a_named_metric_that_is_missing_is_said(caplog):
    assert rating("eval_a_pass1", {"eval_num_samples": 4.0}) is None
    assert "eval_a_pass1: this evaluation gives only eval_num_samples" in caplog.text
