"""Which samples and groups are trained on."""

import pytest

from openrlhf.rl.filtering import Dropped, UngradedAbort, apply_dynamic_filter, apply_ungraded_policy
from openrlhf.rl.metrics import finalize, merge
from openrlhf.types import Status
from tests.unit.rl.samples import group


def rewards(result):
    return {kept.group_id: [r.outcome.reward for r in kept.rollouts] for kept in result.kept}


MIXED = [group("a", [1.0, None, 0.0]), group("b", [1.0, 0.0]), group("c", [None, 1.0])]


def test_drop_sample_leaves_the_others():
    result = apply_ungraded_policy(MIXED, "drop_sample", grouped=False)
    assert rewards(result) == {"a": [1.0, 0.0], "b": [1.0, 0.0], "c": [1.0]}
    assert result.dropped == [
        Dropped("sample", "a/1", "ungraded: grader down"),
        Dropped("sample", "c/0", "ungraded: grader down"),
    ]
    # 2 of 7 samples, 0 of 3 groups.
    assert finalize(result.metrics) == pytest.approx({"rollout/ungraded_rate": 2 / 7, "rollout/dropped_group_rate": 0})


def test_grouped_estimators_need_two_graded_samples():
    result = apply_ungraded_policy(MIXED, "drop_sample", grouped=True)
    assert rewards(result) == {"a": [1.0, 0.0], "b": [1.0, 0.0]}
    assert result.dropped[-1] == Dropped("group", "c", "1 graded samples, 2 needed")
    assert finalize(result.metrics)["rollout/dropped_group_rate"] == pytest.approx(1 / 3)


def test_a_group_without_any_verdict_always_leaves():
    for grouped in (False, True):
        result = apply_ungraded_policy([group("a", [None, None])], "drop_sample", grouped)
        assert result.kept == []
        assert result.dropped[-1].kind == "group"


def test_drop_group():
    result = apply_ungraded_policy(MIXED, "drop_group", grouped=True)
    assert rewards(result) == {"b": [1.0, 0.0]}
    assert [d.id for d in result.dropped] == ["a", "c"]


def test_zero_counts_the_sample():
    result = apply_ungraded_policy(MIXED, "zero", grouped=True)
    assert rewards(result) == {"a": [1.0, 0.0, 0.0], "b": [1.0, 0.0], "c": [0.0, 1.0]}
    outcome = result.kept[0].rollouts[1].outcome
    assert (outcome.status, outcome.score, outcome.reason) == (
        Status.FAILED,
        0.0,
        "ungraded, counted as 0: grader down",
    )
    assert result.dropped == []
    assert finalize(result.metrics)["rollout/ungraded_rate"] == pytest.approx(2 / 7)


def test_abort_names_the_sample_and_the_reason():
    with pytest.raises(UngradedAbort, match="1 of 3 samples of group a got no verdict, the first is a/1: grader down"):
        apply_ungraded_policy(MIXED, "abort", grouped=False)
    assert apply_ungraded_policy(MIXED[1:2], "abort", grouped=False).kept == MIXED[1:2]


@pytest.mark.parametrize(
    ("scores", "bounds", "kept"),
    [
        ([1.0, 0.0], (0.0, 1.0), True),
        ([1.0, 1.0], (0.0, 1.0), False),  # both bounds are exclusive
        ([0.0, 0.0], (0.0, 1.0), False),
        ([1.0, 0.0], (0.5, 1.0), False),
        ([1.0, 0.0, 1.0], (0.5, 1.0), True),
        ([1.0, None], (0.0, 1.0), False),
        ([], (0.0, 1.0), False),
    ],
)
def test_dynamic_filter(scores, bounds, kept):
    result = apply_dynamic_filter([group("a", scores)], bounds)
    assert len(result.kept) == int(kept)
    assert len(result.dropped) == int(not kept)


def test_dynamic_filter_reasons_and_pass_rate():
    groups = [group("a", [1.0, 1.0]), group("b", [1.0, 0.0]), group("c", [None, 0.0]), group("d", [0.0, 1.0])]
    results = [apply_dynamic_filter(part, (0.0, 1.0)) for part in (groups[:1], groups[1:])]
    assert [d.reason for r in results for d in r.dropped] == [
        "mean score 1 is not inside (0, 1)",
        "ungraded: grader down",
    ]
    # Groups over groups, 2 of 4, and not the mean of 0/1 and 2/3.
    metrics = finalize(merge(r.metrics for r in results))
    assert metrics == pytest.approx({"rollout/dynamic_filtering_pass_rate": 0.5, "rollout/ungraded_rate": 1 / 8})
