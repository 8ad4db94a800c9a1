"""Waiting for peers, over a Ray whose refs are names and whose answers are scripted."""

import pytest
from ray.exceptions import (
    ActorUnavailableError,
    ActorUnschedulableError,
    NodeDiedError,
    ObjectLostError,
    ObjectStoreFullError,
    OutOfMemoryError,
    RayActorError,
    RayTaskError,
    WorkerCrashedError,
)

from openrlhf.cluster import wait
from openrlhf.cluster.errors import ClusterError, PeerDied, PeerTimeout
from openrlhf.reward.errors import RewardError


@pytest.fixture
def answers(monkeypatch):
    """answers["ref"] = value or exception; refs without an answer never finish. Refs finish in the dict's order."""
    known: dict[str, object] = {}

    def ready(pending, num_returns, timeout):
        done = [ref for ref in known if ref in pending][:num_returns]
        return done, [ref for ref in pending if ref not in done]

    def get(ref, timeout):
        if isinstance(known[ref], BaseException):
            raise known[ref]
        return known[ref]

    monkeypatch.setattr(wait.ray, "wait", ready)
    monkeypatch.setattr(wait.ray, "get", get)
    return known


def test_results_come_in_the_order_asked_whoever_is_first(answers):
    answers |= {"b": 2, "a": 1}
    refs = {"a": "rank 0", "b": "rank 1"}
    assert list(wait.as_completed(refs, "work", 1)) == [("b", 2), ("a", 1)]
    assert wait.gather(refs, "work", 1) == [1, 2]


def test_a_silent_peer_is_named(answers):
    answers["a"] = 1
    with pytest.raises(PeerTimeout) as caught:
        wait.gather({"a": "rank 0", "b": "policy rank 1"}, "train step", 30)
    assert str(caught.value) == (
        "policy rank 1 did not finish 'train step' within 30 s; if it is only slow, raise --cluster.*_timeout"
    )


def test_all_that_are_silent_are_named(answers):
    """Ranks wait for each other: the driver cannot tell which of them is the one that hangs."""
    answers["b"] = 1
    with pytest.raises(PeerTimeout, match=r"^rank 0, rank 2 did not finish"):
        wait.gather({"a": "rank 0", "b": "rank 1", "c": "rank 2"}, "train step", 30)


def test_a_peers_own_error_arrives_as_it_was_and_at_once(answers):
    """`b` never answers: the failure of `a` must not wait for it."""
    cause = RewardError("reward_func raised")
    answers["a"] = RayTaskError("f", "traceback", cause)
    with pytest.raises(RewardError) as caught:
        wait.gather({"b": "engine 0", "a": "engine 1"}, "rollout", 1)
    assert caught.value is cause


def test_a_dead_peer_is_named(answers):
    answers["a"] = RayActorError(None, "\nThe actor died.\nIts node has vanished.")
    with pytest.raises(PeerDied) as caught:
        wait.gather({"a": "vLLM engine 1"}, "rollout", 1)
    assert str(caught.value) == "vLLM engine 1 died during 'rollout': The actor died."
    assert isinstance(caught.value, ClusterError)


@pytest.mark.parametrize(
    "loss",
    [
        OutOfMemoryError("Task was killed due to the node running low on memory.\nMemory on the node: 15.3GB / 16GB"),
        ActorUnavailableError("connection reset", None),
        ActorUnschedulableError("its node is gone"),
        NodeDiedError("the node has left"),
        ObjectLostError("ab" * 28, None, ""),
        WorkerCrashedError(),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_every_way_in_which_ray_loses_a_peer_is_its_death(answers, loss):
    answers["a"] = loss
    with pytest.raises(PeerDied, match=r"vLLM engine 1 died during 'rollout': .+") as caught:
        wait.fetch("a", "vLLM engine 1", "rollout")
    assert "\n" not in str(caught.value)


def test_a_store_without_room_is_nobody_s_death(answers):
    answers["a"] = ObjectStoreFullError("full")
    with pytest.raises(ObjectStoreFullError):
        wait.fetch("a", "vLLM engine 1", "rollout")


def test_a_rank_that_felt_a_neighbours_death_does_not_hide_it(answers):
    answers["a"] = RayTaskError("f", "traceback", RuntimeError("Connection closed by peer"))
    answers["b"] = RayActorError(None, "The actor died.")
    with pytest.raises(PeerDied, match=r"policy rank 1 died during 'train step': The actor died\.") as caught:
        wait.gather({"a": "policy rank 0", "b": "policy rank 1"}, "train step", 1)
    assert "Connection closed" in str(caught.value.__cause__)


def test_a_rank_that_fails_alone_keeps_its_own_error(answers):
    answers["a"] = RayTaskError("f", "traceback", RuntimeError("no kernel for this"))
    answers["b"] = 1
    with pytest.raises(RuntimeError, match="no kernel for this"):
        wait.gather({"a": "policy rank 0", "b": "policy rank 1"}, "train step", 1)
