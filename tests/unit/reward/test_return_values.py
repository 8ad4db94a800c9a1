"""The return values of reward functions and servers: public case f1, and f2's forms after JSON."""

import logging
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from openrlhf.reward.errors import RewardError
from openrlhf.reward.normalise import normalise
from openrlhf.reward.tally import Tally
from openrlhf.types import Status

SOURCE = "reward_func in rewards.py"
FOUR = [0.0, 1.0, 0.5, -2.0]


def rewards(raw, count, bare=False):
    return [outcome.reward for outcome in normalise(raw, count, SOURCE, Tally(), bare)]


@pytest.mark.parametrize(
    "value",
    [
        FOUR,
        tuple(FOUR),
        np.array(FOUR, dtype=np.float32),
        torch.tensor(FOUR),
        torch.tensor(FOUR, dtype=torch.bfloat16, requires_grad=True),
        torch.tensor(FOUR).reshape(4, 1),  # (n, 1) is read as (n,)
        np.array(FOUR).reshape(4, 1),
        [[0.0], [1], (0.5,), np.float64(-2)],
        [torch.tensor(0.0), torch.tensor([1]), np.array(0.5), Fraction(-2)],
    ],
    ids=lambda value: type(value).__name__,
)
def test_four_rewards_are_accepted(value):
    assert rewards({"rewards": value}, 4) == FOUR
    assert rewards(value, 4, bare=True) == FOUR


@pytest.mark.parametrize(
    ("value", "got"),
    [
        (torch.zeros(1), 1),
        (torch.tensor(1.0), 1),  # a scalar counts as (1,)
        (1.0, 1),
        (None, 1),
        (torch.zeros(3), 3),
        ([0] * 5, 5),
        (torch.zeros(1, 4), 1),
        ([], 0),
    ],
)
def test_nothing_is_broadcast(value, got):
    with pytest.raises(ValueError, match=rf"reward_func in rewards\.py: rewards: expected 4, got {got}\b"):
        rewards({"rewards": value}, 4)


@pytest.mark.parametrize("value", [1, 1.0, True, [1], torch.tensor(1.0), torch.ones(1), torch.ones(1, 1), np.int64(1)])
def test_one_sample_takes_a_scalar_or_one_entry(value):
    assert rewards({"rewards": value}, 1) == [1.0]
    assert rewards(value, 1, bare=True) == [1.0]


@pytest.mark.parametrize("entry", ["1", b"1", "abc", 1j, {"a": 1}, [1, 2], [[1]], [], object()])
def test_an_entry_that_is_no_number_is_refused(entry):
    with pytest.raises(RewardError, match=r"rewards\.py: rewards\[1\]: expected a number, got "):
        rewards({"rewards": [0.0, entry]}, 2)


def test_booleans_are_numbers():
    assert rewards({"rewards": [True, False, np.bool_(True)]}, 3) == [1.0, 0.0, 1.0]
    assert rewards({"rewards": torch.tensor([True, False])}, 2) == [1.0, 0.0]


def test_scores_default_to_rewards_and_must_have_their_length():
    same = normalise({"rewards": [2.0, 3.0]}, 2, SOURCE, Tally())
    assert [o.score for o in same] == [2.0, 3.0]
    own = normalise({"rewards": [2.0, 3.0], "scores": torch.tensor([0.0, 1.0])}, 2, SOURCE, Tally())
    assert [(o.reward, o.score) for o in own] == [(2.0, 0.0), (3.0, 1.0)]
    with pytest.raises(RewardError, match=r"rewards\.py: scores: expected 2, got 1"):
        normalise({"rewards": [2.0, 3.0], "scores": 1.0}, 2, SOURCE, Tally())


@pytest.mark.parametrize(
    ("raw", "bare", "message"),
    [
        ({"reward": [1.0]}, True, r"no 'rewards' among the keys \['reward'\]"),
        ([1.0], False, r"got list \[1\.0\]; expected \{"),
        (1.0, False, "got float 1.0; expected"),
        (None, False, "got NoneType None; expected"),
        (None, True, "returned None, is a return statement missing"),
        ("1.0", True, "got str '1.0'; expected"),
        (object(), True, r"rewards\[0\]: expected a number, got object"),
    ],
)
def test_other_forms_are_refused(raw, bare, message):
    with pytest.raises(RewardError, match=message):
        normalise(raw, 1, SOURCE, Tally(), bare)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (math.nan, "nan"),
        (None, "nan"),
        (math.inf, "infinite"),
        (-math.inf, "infinite"),
        (1e39, "infinite"),
        pytest.param(10**400, "infinite", id="huge int"),
    ],
)
@pytest.mark.parametrize("field", ["rewards", "scores"])
def test_a_value_without_a_verdict_leaves_only_its_sample_ungraded(value, kind, field, caplog):
    # 1e39 exceeds float32, whose largest number is about 3.4e38, and would be infinite in Experience.
    tally = Tally()
    raw: dict = {"rewards": [0.0, 1.0, 1.0], "scores": [0.0, 1.0, 1.0], "extra_logs": {"length": [5, 6, 7]}}
    raw[field][1] = raw[field][2] = value
    with caplog.at_level(logging.WARNING):
        graded, *missing = normalise(raw, 3, SOURCE, tally)
    assert (graded.status, graded.reward) == (Status.GRADED, 0.0)
    for outcome in missing:
        assert outcome.status is Status.UNGRADED
        assert math.isnan(outcome.reward)
        assert math.isnan(outcome.score)
        assert f"{SOURCE}: {field[:-1]} is" in outcome.reason
    assert [o.extra_logs["length"] for o in missing] == [6.0, 7.0]
    assert tally.counts() == {kind: 2}
    assert len(caplog.records) == 1  # one line per kind


def test_extra_logs_per_sample_and_for_all():
    logs = {"acc": torch.tensor([1.0, 0.0]), "mean": 0.5, "n": np.int64(3), "shape": [[1], [2]], "gap": [None, 1], 7: 8}
    first, second = normalise({"rewards": [1, 0], "extra_logs": logs}, 2, SOURCE, Tally())
    gap = first.extra_logs["gap"]
    assert math.isnan(gap)
    assert first.extra_logs == {"acc": 1.0, "mean": 0.5, "n": 3.0, "shape": 1.0, "gap": gap, "7": 8.0}
    assert second.extra_logs == {"acc": 0.0, "mean": 0.5, "n": 3.0, "shape": 2.0, "gap": 1.0, "7": 8.0}


@pytest.mark.parametrize("value", ["good", [1.0], [1.0, "x"], {"a": 1}, np.zeros((2, 2))])
def test_unusable_extra_logs_are_left_out_with_one_warning(value, caplog):
    tally = Tally()
    raw = {"rewards": [1, 0], "extra_logs": {"kept": 1, "note": value}}
    with caplog.at_level(logging.WARNING):
        outcomes = [*normalise(raw, 2, SOURCE, tally), *normalise(raw, 2, SOURCE, tally)]
    assert all(o.extra_logs == {"kept": 1.0} for o in outcomes)
    assert len(caplog.records) == 1
    assert "extra_logs['note']" in caplog.text
    assert SOURCE in caplog.text


def test_extra_logs_of_another_type_are_left_out(caplog):
    with caplog.at_level(logging.WARNING):
        (outcome,) = normalise({"rewards": 1, "extra_logs": [1, 2]}, 1, SOURCE, Tally())
    assert outcome.extra_logs == {}
    assert "extra_logs is list" in caplog.text
