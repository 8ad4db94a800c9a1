"""Waiting for other processes: always with a limit, always with the name of the peer."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from openrlhf.cluster.errors import PeerDied, PeerTimeout, first_line


def fetch(ref: Any, peer: str, work: str) -> Any:
    """Get a finished ref. The peer's own exception is re-raised as it was; a dead peer becomes PeerDied."""
    try:
        return ray.get(ref, timeout=60)
    except RayTaskError as error:
        raise error.cause from error
    except RayActorError as error:
        raise PeerDied(peer, work, first_line(error)) from error
    except GetTimeoutError as error:
        raise PeerTimeout(peer, work, 60) from error


def as_completed(refs: Mapping[Any, str], work: str, timeout: float) -> Iterator[tuple[Any, Any]]:
    """Yield (ref, result) as peers finish.

    Args:
        refs: object ref to the peer's name.
        work: what the peers do, for the error.
        timeout: seconds for all of them together.

    Raises:
        PeerTimeout, PeerDied, or the first exception a peer raised, at once: the others are not waited for.
    """
    pending = list(refs)
    deadline = time.monotonic() + timeout
    while pending:
        ready, pending = ray.wait(pending, num_returns=1, timeout=max(0.0, deadline - time.monotonic()))
        if not ready:
            raise PeerTimeout(refs[pending[0]], work, timeout)
        for ref in ready:
            yield ref, fetch(ref, refs[ref], work)


def gather(refs: Mapping[Any, str], work: str, timeout: float) -> list[Any]:
    """Wait for all peers; results in the order of `refs`. Errors as in `as_completed`."""
    results = dict(as_completed(refs, work, timeout))
    return [results[ref] for ref in refs]
