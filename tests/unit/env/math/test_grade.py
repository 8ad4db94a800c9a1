"""Labels that no response can equal; the verdicts themselves stand in tests/integration/test_math_grade.py."""

import logging
import math

import pytest

from openrlhf.env.math import grade as graded
from openrlhf.env.math.grade import grade
from openrlhf.env.math.pool import ComparePool
from openrlhf.env.verifiers.once import FailureCount


@pytest.mark.parametrize("label", ["{'gold_ans': '7'}", "['7']", '{"ground_truth": "7"}'])
def test_a_label_that_nobody_can_match_is_no_verdict_and_said_once(label, caplog, monkeypatch):
    monkeypatch.setattr(graded, "_UNREADABLE", FailureCount())
    pool = ComparePool(size=1)  # starts no process before a comparison
    with caplog.at_level(logging.WARNING):
        assert all(math.isnan(grade(r"\boxed{7}", label, pool)) for _ in range(3))
    (record,) = caplog.records
    assert repr(label) in record.message
    assert "'gold_ans' (or 'answer')" in record.message
    pool.close()
