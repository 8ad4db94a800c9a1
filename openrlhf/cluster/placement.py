"""Which process sits on which GPU.

    colocate_all            one bundle per actor GPU; every role and the engines share each of them
    colocate_actor_ref      policy and reference share bundles
    colocate_critic_reward  critic and reward models share bundles
    otherwise               every role has its own bundles; so have the engines

Bundles are reserved in the order policy, reference, critic, reward models, engines.

On a CPU machine there is nothing to place: processes take turns, and no actor reserves a core.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from openrlhf.cluster.errors import PeerTimeout
from openrlhf.cluster.specs import ClusterSpec

_ROLES = ("policy", "reference", "critic", "reward")
_ENGINES = "engines"
# An engine's share of a GPU that it shares. Shares steer Ray only; memory is vLLM's and DeepSpeed's to share.
_ENGINE_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Seat:
    """Where one actor runs: its options for Ray, and the bundles its engine's workers may take."""

    options: dict[str, Any]
    bundles: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Seating:
    """The seats of every role (none for an absent one) and the placement groups that hold them."""

    policy: list[Seat]
    reference: list[Seat]
    critic: list[Seat]
    reward: list[Seat]
    engines: list[Seat]
    groups: tuple[PlacementGroup, ...] = ()

    def release(self) -> None:
        for group in self.groups:
            remove_placement_group(group)


def seat_all(spec: ClusterSpec) -> Seating:
    """Reserve a seat for every process of the run.

    Raises:
        PeerTimeout: the cluster does not have the GPUs within `cluster.start_timeout`.
    """
    counts = processes(spec)
    if spec.policy.device == "cpu":
        return _seating({role: _free_seats(count) for role, count in counts.items()}, ())
    width = spec.engine.vllm.tensor_parallel_size
    seats: dict[str, list[Seat]] = {role: [] for role in counts}
    groups = []
    for sharing in rooms(spec, counts):
        gpus = counts[sharing[0]] * (width if sharing[0] == _ENGINES else 1)
        group = _reserve(gpus, " and ".join(sharing), spec.cluster.start_timeout)
        groups.append(group)
        for role in sharing:
            share = _share(role, sharing)
            seats[role] = [
                _engine_seat(group, i, width, share) if role == _ENGINES else _seat(group, (i % gpus,), share)
                for i in range(counts[role])
            ]
    return _seating(seats, tuple(groups))


def _seating(seats: Mapping[str, list[Seat]], groups: tuple[PlacementGroup, ...]) -> Seating:
    return Seating(seats["policy"], seats["reference"], seats["critic"], seats["reward"], seats[_ENGINES], groups)


def processes(spec: ClusterSpec) -> dict[str, int]:
    """How many actors each role has; 0 where it is absent."""
    sections: Mapping[str, Any] = {
        "policy": spec.policy.actor,
        "reference": spec.reference and spec.reference.ref,
        "critic": spec.critic and spec.critic.critic,
        "reward": spec.reward and spec.reward.reward,
    }
    counts = {
        role: section.num_nodes * (section.num_gpus_per_node or 1) if section else 0
        for role, section in sections.items()
    }
    return counts | {_ENGINES: spec.engine.vllm.num_engines or 1}


def rooms(spec: ClusterSpec, counts: Mapping[str, int]) -> list[tuple[str, ...]]:
    """The roles that are present, those that share bundles together; the first of each decides how many there are."""
    train = spec.policy.train
    if train.colocate_all:
        plan: Sequence[tuple[str, ...]] = [(*_ROLES, _ENGINES)]
    else:
        actor_ref = [("policy", "reference")] if train.colocate_actor_ref else [("policy",), ("reference",)]
        critic_reward = [("critic", "reward")] if train.colocate_critic_reward else [("critic",), ("reward",)]
        plan = [*actor_ref, *critic_reward, (_ENGINES,)]
    present = [tuple(role for role in sharing if counts[role]) for sharing in plan]
    return [sharing for sharing in present if sharing]


def _share(role: str, sharing: tuple[str, ...]) -> float:
    if len(sharing) == 1:
        return 1
    if role == _ENGINES:
        return _ENGINE_SHARE
    rest = 1 - _ENGINE_SHARE if _ENGINES in sharing else 1
    return rest / len([other for other in sharing if other != _ENGINES]) // 0.01 / 100  # rounded down: they must fit


def _free_seats(count: int) -> list[Seat]:
    return [Seat({"num_cpus": 0, "num_gpus": 0}) for _ in range(count)]


def _reserve(gpus: int, role: str, timeout: float) -> PlacementGroup:
    group = placement_group([{"GPU": 1, "CPU": 1}] * gpus, strategy="PACK")
    if not group.wait(timeout):
        remove_placement_group(group)
        have = ray.cluster_resources()
        cluster = f"Ray ({have.get('GPU', 0):.0f} GPUs, {have.get('CPU', 0):.0f} CPUs)"
        raise PeerTimeout(cluster, f"reserving {gpus} GPUs for {role}", timeout)
    return group


def _seat(group: PlacementGroup, bundles: tuple[int, ...], share: float) -> Seat:
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundles[0])
    return Seat({"num_cpus": share if share < 1 else 1, "num_gpus": share, "scheduling_strategy": strategy}, bundles)


def _engine_seat(group: PlacementGroup, index: int, width: int, share: float) -> Seat:
    """A single-GPU engine holds its GPU itself; a wider one leaves that to the workers it starts on its bundles."""
    bundles = tuple(range(index * width, (index + 1) * width))
    seat = _seat(group, bundles, share)
    if width == 1:
        return seat
    strategy = PlacementGroupSchedulingStrategy(
        group, placement_group_bundle_index=bundles[0], placement_group_capture_child_tasks=True
    )
    return Seat({"num_cpus": 0, "num_gpus": 0, "scheduling_strategy": strategy}, bundles)
