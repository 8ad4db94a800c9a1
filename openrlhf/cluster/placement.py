"""Which process sits on which GPU.

    colocate_all        one bundle per actor GPU; policy, reference and engines share each of them
    colocate_actor_ref  policy and reference share bundles, engines have their own
    otherwise           every role has its own bundles

On a CPU machine there is nothing to place: processes take turns, and no actor reserves a core.
"""

from dataclasses import dataclass
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from openrlhf.cluster.errors import PeerTimeout
from openrlhf.cluster.specs import ClusterSpec

# Shares of one GPU where roles sit together. They steer Ray only; memory is vLLM's and DeepSpeed's to share.
_POLICY_SHARE, _REFERENCE_SHARE, _ENGINE_SHARE = 0.4, 0.2, 0.2


@dataclass(frozen=True, slots=True)
class Seat:
    """Where one actor runs: its options for Ray, and the bundles its engine's workers may take."""

    options: dict[str, Any]
    bundles: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Seating:
    """The seats of every role and the placement groups that hold them."""

    policy: list[Seat]
    reference: list[Seat]
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
    policies = spec.policy.actor.num_nodes * (spec.policy.actor.num_gpus_per_node or 1)
    references = spec.reference.ref.num_nodes * (spec.reference.ref.num_gpus_per_node or 1) if spec.reference else 0
    engines = spec.engine.vllm.num_engines or 1
    if spec.policy.device == "cpu":
        return Seating(_free_seats(policies), _free_seats(references), _free_seats(engines))

    width = spec.engine.vllm.tensor_parallel_size
    timeout = spec.cluster.start_timeout
    if spec.policy.train.colocate_all:
        shared = _reserve(policies, "all roles", timeout)
        return Seating(
            [_seat(shared, (i,), _POLICY_SHARE) for i in range(policies)],
            [_seat(shared, (i % policies,), _REFERENCE_SHARE) for i in range(references)],
            [_engine_seat(shared, i, width, _ENGINE_SHARE) for i in range(engines)],
            (shared,),
        )
    trained = _reserve(policies, "policy", timeout)
    groups = [trained]
    if spec.policy.train.colocate_actor_ref:
        reference_seats = [_seat(trained, (i % policies,), _REFERENCE_SHARE) for i in range(references)]
        policy_seats = [_seat(trained, (i,), _POLICY_SHARE) for i in range(policies)]
    else:
        policy_seats = [_seat(trained, (i,), 1) for i in range(policies)]
        reference_seats = []
        if references:
            groups.append(_reserve(references, "reference", timeout))
            reference_seats = [_seat(groups[-1], (i,), 1) for i in range(references)]
    groups.append(_reserve(engines * width, "vLLM engines", timeout))
    return Seating(
        policy_seats, reference_seats, [_engine_seat(groups[-1], i, width, 1) for i in range(engines)], tuple(groups)
    )


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
