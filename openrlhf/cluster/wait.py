"""Waiting for other processes: always with a limit, always with the name of the peer."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import ray
from ray.exceptions import (
    ActorPlacementGroupRemoved,
    ActorUnschedulableError,
    GetTimeoutError,
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RayTaskError,
    WorkerCrashedError,
)

from openrlhf.cluster.errors import ClusterError, PeerDied, PeerTimeout
from openrlhf.faults import first_line

_GRACE = 10.0  # seconds in which Ray notices a dead process whose neighbours have felt it already

# How Ray says that a peer will not answer any more. Not among them: what says that a value is at fault or that there is
# no room for it, and an environment that cannot be set up, which a new process would not get either.
_LOST = (
    RayActorError,  # its process ended, or cannot be reached, so that nobody knows what it has done
    OutOfMemoryError,  # Ray's memory monitor killed it
    WorkerCrashedError,
    NodeDiedError,
    LocalRayletDiedError,
    ObjectLostError,  # its answer lay on a node that is gone
    ActorUnschedulableError,  # the node that it was to start on is gone
    ActorPlacementGroupRemoved,
)


def fetch(ref: Any, peer: str, work: str) -> Any:
    """Get a finished ref. The peer's own exception is re-raised as it was; a dead peer becomes PeerDied."""
    try:
        return ray.get(ref, timeout=60)
    except RayTaskError as error:
        raise error.cause from error
    except _LOST as error:
        raise PeerDied(peer, work, first_line(error)) from error
    except GetTimeoutError as error:
        raise PeerTimeout(peer, work, 60) from error


def finished(refs: Mapping[Any, str], work: str, timeout: float) -> Iterator[Any]:
    """Yield the refs as peers finish, well or not; `fetch` tells.

    Args:
        refs: object ref to the peer's name.
        work: what the peers do, for the error.
        timeout: seconds for all of them together.

    Raises:
        PeerTimeout: names all peers that have not finished: where they wait for each other, any may be the cause.
    """
    pending = list(refs)
    deadline = time.monotonic() + timeout
    while pending:
        ready, pending = ray.wait(pending, num_returns=1, timeout=max(0.0, deadline - time.monotonic()))
        if not ready:
            raise PeerTimeout(", ".join(refs[ref] for ref in pending), work, timeout)
        yield from ready


def as_completed(refs: Mapping[Any, str], work: str, timeout: float) -> Iterator[tuple[Any, Any]]:
    """Yield (ref, result) as peers finish; arguments as for `finished`.

    Raises:
        PeerTimeout, PeerDied, or the first exception a peer raised, at once: the others are not waited for, unless it
            may come from a neighbour's death, which is then named instead.
    """
    pending = dict(refs)
    for ref in finished(refs, work, timeout):
        peer = pending.pop(ref)
        try:
            result = fetch(ref, peer, work)
        except ClusterError:
            raise
        except RuntimeError as error:  # what a broken collective raises in the ranks that live
            _name_the_dead(pending, work, error)
            raise
        yield ref, result


def gather(refs: Mapping[Any, str], work: str, timeout: float) -> list[Any]:
    """Wait for all peers; results in the order of `refs`. Errors as in `as_completed`."""
    results = dict(as_completed(refs, work, timeout))
    return [results[ref] for ref in refs]


def _name_the_dead(others: Mapping[Any, str], work: str, error: RuntimeError) -> None:
    """Raise PeerDied for the first of the others that turns out to be dead; nothing where none is."""
    try:
        for ref in finished(others, work, _GRACE):
            try:
                fetch(ref, others[ref], work)
            except PeerDied as death:
                raise death from error
            except Exception:  # another one that felt it
                continue
    except PeerTimeout:
        return
