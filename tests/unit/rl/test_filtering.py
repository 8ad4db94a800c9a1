"""Which samples and groups are trained on."""

from dataclasses import replace

import pytest

from openrlhf.rl.filtering import Dropped, UngradedAbort, apply_dynamic_filter, apply_ungraded_policy
from openrlhf.rl.metrics import finalize, merge
from openrlhf.types import RolloutGroup, Status
from tests.unit.rl.samples import group, segment


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
    assert finalize(result.metrics) == pytest.approx(
        {"rollout/ungraded_rate": 2 / 7, "rollout/no_token_rate": 0, "rollout/dropped_group_rate": 0}
    )


def test_tools_that_were_out_of_order_are_counted_over_the_samples_that_have_tools():
    def with_fact(rollout, down):
        return replace(rollout, outcome=replace(rollout.outcome, extra_logs={"runner_down": down}))

    one, two, three = MIXED[0].rollouts
    groups = [replace(MIXED[0], rollouts=(with_fact(one, 0.0), with_fact(two, 1.0), three)), MIXED[1]]
    results = [
        apply_ungraded_policy(groups, "drop_sample", grouped=False),
        apply_dynamic_filter(groups, (0.0, 1.0), grouped=False),
    ]
    assert [finalize(result.metrics)["rollout/runner_down_rate"] for result in results] == [0.5, 0.5]


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
        ([0.1] * 3, (0.1, 1.0), False),  # whose mean is 0.10000000000000002
        ([0.9, 0.9, 0.9, 0.9, 0.9, 0.9], (0.0, 0.9), False),
        ([0.1, 0.1, 0.1001], (0.1, 1.0), True),
        ([1.0, None], (0.0, 1.0), False),
        ([], (0.0, 1.0), False),
    ],
)
def test_dynamic_filter(scores, bounds, kept):
    result = apply_dynamic_filter([group("a", scores)], bounds, grouped=False)
    assert len(result.kept) == int(kept)
    assert len(result.dropped) == int(not kept)


def test_dynamic_filter_reasons_and_pass_rate():
    groups = [group("a", [1.0, 1.0]), group("b", [1.0, 0.0]), group("c", [None, 0.0]), group("d", [0.0, 1.0])]
    results = [apply_dynamic_filter(part, (0.0, 1.0), grouped=True) for part in (groups[:1], groups[1:])]
    assert [d.reason for r in results for d in r.dropped] == [
        "mean score 1 is not inside (0, 1)",
        "ungraded: grader down",
    ]
    # Groups over groups, 2 of 4, and not the mean of 0/1 and 2/3.
    metrics = finalize(merge(r.metrics for r in results))
    assert metrics == pytest.approx(
        {"rollout/dynamic_filtering_pass_rate": 0.5, "rollout/ungraded_rate": 1 / 8, "rollout/no_token_rate": 0}
    )


SPOKEN, SILENT = segment([5, 6, 7], [0, 1, 1]), segment([5, 6, 7], [0, 0, 0])


def answers(group_id: str, rewards: list[float | None], tokens: list[bool]) -> RolloutGroup:
    """Samples of which some have no sampled token; every second of those has no segment at all."""
    whole = group(group_id, rewards, *[SPOKEN if spoke else SILENT for spoke in tokens])
    bare = [
        replace(r, segments=()) if not spoke and i % 2 else r
        for i, (r, spoke) in enumerate(zip(whole.rollouts, tokens, strict=True))
    ]
    return replace(whole, rollouts=tuple(bare))


QUIET = [
    answers("a", [1.0, 0.0, None, 1.0], [True, True, False, False]),
    answers("b", [1.0, 0.0], [True, False]),
    answers("c", [1.0, 1.0], [False, False]),
]


@pytest.mark.parametrize("policy", ["drop_sample", "zero"])
def test_samples_without_a_sampled_token_leave_before_their_group_is_counted(policy):
    result = apply_ungraded_policy(QUIET, policy, grouped=True)
    assert rewards(result) == {"a": [1.0, 0.0]}
    assert [d for d in result.dropped if d.kind == "group"] == [
        Dropped("group", "b", "1 graded samples beside 1 without a sampled token, 2 needed"),
        Dropped("group", "c", "0 graded samples beside 2 without a sampled token, 2 needed"),
    ]
    gone = [d.id for d in result.dropped if d.kind == "sample"]
    assert sorted(gone) == ["a/2", "a/3", "b/1", "c/0", "c/1"]
    # 5 of 8 samples have no token, 1 no verdict; 2 of 3 groups leave.
    assert finalize(result.metrics) == pytest.approx(
        {"rollout/ungraded_rate": 1 / 8, "rollout/no_token_rate": 5 / 8, "rollout/dropped_group_rate": 2 / 3}
    )
    assert rewards(apply_ungraded_policy(QUIET, policy, grouped=False)) == {"a": [1.0, 0.0], "b": [1.0]}


def test_a_verdict_is_missed_with_or_without_a_token():
    assert rewards(apply_ungraded_policy(QUIET[:2], "drop_group", grouped=False)) == {"b": [1.0]}
    with pytest.raises(UngradedAbort, match="1 of 4 samples of group a"):
        apply_ungraded_policy(QUIET, "abort", grouped=False)


def test_dynamic_filter_takes_the_mean_of_those_with_tokens():
    """a has a sample without a verdict. b: the mean of all is 0.5, of the one with tokens 1. d keeps [1, 0]."""
    groups = [*QUIET, answers("d", [1.0, 0.0, 0.0], [True, True, False])]
    result = apply_dynamic_filter(groups, (0.0, 1.0), grouped=False)
    assert rewards(result) == {"d": [1.0, 0.0]}
    assert [d.reason for d in result.dropped if d.kind == "group"] == [
        "ungraded: grader down",
        "mean score 1 is not inside (0, 1)",
        "0 graded samples beside 2 without a sampled token, 1 needed",
    ]
    assert finalize(result.metrics)["rollout/no_token_rate"] == pytest.approx(6 / 11)
    (lone,) = [d for d in apply_dynamic_filter(QUIET[1:2], (0.0, 2.0), grouped=True).dropped if d.kind == "group"]
    assert lone.reason == "1 graded samples beside 1 without a sampled token, 2 needed"
