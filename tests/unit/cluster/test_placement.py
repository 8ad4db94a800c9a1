"""Who sits with whom, and that shares of a GPU fit."""

from types import SimpleNamespace

import pytest

from openrlhf.cluster import placement
from openrlhf.config.model import ActorConfig, CriticConfig, RefConfig
from openrlhf.config.reward import RewardConfig
from openrlhf.config.rollout import VllmConfig
from openrlhf.config.run import ClusterConfig
from openrlhf.config.train import TrainConfig

ALL = ("policy", "reference", "critic", "reward")


def spec(device: str = "cuda", roles: tuple[str, ...] = ALL, gpus: int = 2, width: int = 1, **train: bool):
    engines = gpus // width
    return SimpleNamespace(
        policy=SimpleNamespace(actor=ActorConfig(num_gpus_per_node=gpus), train=TrainConfig(**train), device=device),
        reference=SimpleNamespace(ref=RefConfig(num_gpus_per_node=gpus)) if "reference" in roles else None,
        critic=SimpleNamespace(critic=CriticConfig(num_gpus_per_node=gpus)) if "critic" in roles else None,
        reward=SimpleNamespace(reward=RewardConfig(num_gpus_per_node=gpus)) if "reward" in roles else None,
        engine=SimpleNamespace(vllm=VllmConfig(num_engines=engines, tensor_parallel_size=width)),
        cluster=ClusterConfig(),
    )


@pytest.fixture
def reserved(monkeypatch):
    """The reservations made: (GPUs, roles), each standing for its placement group."""
    made = []

    def reserve(gpus, role, timeout):
        made.append((gpus, role))
        return made[-1]

    monkeypatch.setattr(placement, "_reserve", reserve)
    monkeypatch.setattr(
        placement, "PlacementGroupSchedulingStrategy",
        lambda group, placement_group_bundle_index, **_: (group, placement_group_bundle_index),
    )  # fmt: skip
    return made


def occupancy(seating) -> dict:
    """(placement group, bundle) -> shares of its GPU."""
    found: dict = {}
    for role in (*ALL, "engines"):
        for seat in getattr(seating, role):
            found.setdefault(seat.options["scheduling_strategy"], []).append(seat.options["num_gpus"])
    return found


@pytest.mark.parametrize(
    ("train", "expected"),
    [
        ({}, ["policy", "reference", "critic", "reward", "engines"]),
        ({"colocate_actor_ref": True}, ["policy and reference", "critic", "reward", "engines"]),
        ({"colocate_critic_reward": True}, ["policy", "reference", "critic and reward", "engines"]),
        ({"colocate_all": True}, ["policy and reference and critic and reward and engines"]),
    ],
)
def test_roles_share_what_the_flags_say(reserved, train, expected) -> None:
    seating = placement.seat_all(spec(**train))
    assert reserved == [(2, roles) for roles in expected]
    assert [len(getattr(seating, role)) for role in (*ALL, "engines")] == [2] * 5
    shares = occupancy(seating)
    assert len(shares) == 2 * len(expected)
    assert all(0.9 < sum(parts) <= 1 for parts in shares.values()), shares


def test_absent_roles_take_no_room(reserved) -> None:
    seating = placement.seat_all(spec(roles=("policy",), colocate_critic_reward=True))
    assert reserved == [(2, "policy"), (2, "engines")]
    assert seating.reference == seating.critic == seating.reward == []


def test_a_wide_engine_takes_several_bundles(reserved) -> None:
    seating = placement.seat_all(spec(roles=("policy",), width=2))
    assert reserved[-1] == (2, "engines")
    assert [seat.bundles for seat in seating.engines] == [(0, 1)]


def test_nothing_is_reserved_on_cpu(reserved) -> None:
    seating = placement.seat_all(spec(device="cpu"))
    assert reserved == []
    assert len(seating.critic) == 2
    assert seating.reward[0].options == {"num_cpus": 0, "num_gpus": 0}
