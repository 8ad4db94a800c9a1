"""Calls under way, over a Ray whose refs are names and whose answers are scripted."""

import pytest

from openrlhf.cluster import flight
from openrlhf.cluster.errors import PeerTimeout
from openrlhf.cluster.flight import Dropped, Flight


@pytest.fixture
def answers(monkeypatch):
    """answers["ref"] = value; refs without an answer never finish. `asked` gets every time limit."""
    known: dict[str, object] = {}
    asked: list[float] = []

    def wait(refs, num_returns, timeout):
        asked.append(timeout)
        done = [ref for ref in known if ref in refs][:num_returns]
        return done, [ref for ref in refs if ref not in done]

    monkeypatch.setattr(flight.ray, "wait", wait)
    monkeypatch.setattr(flight, "fetch", lambda ref, peer, work: (known[ref], peer, work))
    clock = iter(range(100))
    monkeypatch.setattr(flight.time, "monotonic", lambda: next(clock))
    return known, asked


def test_calls_come_back_as_they_are_answered_and_more_may_join(answers):
    known, _ = answers
    calls = Flight()
    calls.add("a", "engine 0", "rollout", 60)
    calls.add("b", "engine 1", "rollout", 60)
    known["b"] = 2
    assert calls.ready() == "b"
    assert calls.take("b") == (2, "engine 1", "rollout")
    calls.add("c", "engine 1", "load the model", 60)
    known["c"] = 3
    assert calls.ready() == "c"
    assert calls.take("c") == (3, "engine 1", "load the model")
    assert len(calls) == 1


def test_what_was_dropped_is_neither_waited_for_nor_answered(answers):
    known, _ = answers
    calls = Flight()
    calls.add("a", "engine 0", "rollout", 60)
    calls.add("b", "engine 1", "rollout", 60)
    calls.drop(["a", "never added"])
    known["a"] = 1
    assert calls.ready(within=0.5) is None
    with pytest.raises(Dropped):
        calls.take("a")


def test_nothing_in_flight_is_nothing_to_wait_for(answers):
    assert Flight().ready() is None


def test_the_first_deadline_counts_and_names_its_peer(answers):
    _, asked = answers
    calls = Flight()
    calls.add("a", "engine 0", "rollout", 60)  # second 0: until 60
    calls.add("b", "engine 1", "rollout", 5)  # second 1: until 6
    with pytest.raises(PeerTimeout, match="engine 1 did not finish 'rollout' within 5 s"):
        calls.ready()  # second 2
    assert asked == [4]
