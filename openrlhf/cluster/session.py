"""Joining a Ray cluster, or starting and stopping one of our own.

A running cluster (`ray start --head`, or the one that `ray job submit` runs the command in) is joined. Without one
the command starts a local Ray that lives exactly as long as the command does.
"""

import logging
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import ray
from ray._private.services import canonicalize_bootstrap_address

from openrlhf.cluster.errors import ClusterError
from openrlhf.faults import first_line

_LOCAL_OBJECT_STORE_BYTES = 1 << 30  # rollouts and metrics only: weights never pass through the object store
_CONNECT_SECONDS = 10.0
_START_ATTEMPTS = 3
_LATE = "timed out during startup"  # how Ray words it
logger = logging.getLogger(__name__)
WORKER_ENVIRONMENT = {
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    # Arrays in Ray's object store are read-only, and torch remarks on that; nothing writes to them.
    "PYTHONWARNINGS": "ignore:The given NumPy array is not writable:UserWarning",
}


@contextmanager
def ray_session(device: str) -> Iterator[None]:
    """Connect to Ray for the length of the block; a Ray that this block started ends with it.

    Raises:
        ClusterError: a cluster is announced but does not answer, or a local one cannot start.
    """
    runtime_env = {"env_vars": WORKER_ENVIRONMENT}
    # Ray prints the errors of calls that nobody waits for any more: those of an engine that has been replaced.
    os.environ["RAY_IGNORE_UNHANDLED_ERRORS"] = "1"
    # RAY_ADDRESS, or the cluster of the last `ray start` on this host. Not `address="auto"`: that would also find the
    # private Ray of another run, which ends with that run.
    address = canonicalize_bootstrap_address(None)  # type: ignore[arg-type]  # None is documented, not annotated
    try:
        with _own_sigterm_handler():
            if address is None:
                _start_local(device, runtime_env)
            else:
                _join(address, runtime_env)
        yield
    finally:
        ray.shutdown()


@contextmanager
def _own_sigterm_handler() -> Iterator[None]:
    """Ray's init replaces the handler of SIGTERM by one that exits with 15; put the command's own back."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


@contextmanager
def _sessions_of_their_own() -> Iterator[None]:
    """What is started within the block leaves the command's process group, as do its own children.

    So a SIGTERM to the whole group (`timeout`, `kill -- -PGID`) reaches the command alone, which then saves and ends
    the others. Even if it is killed they end with it: the kernel kills Ray's processes when their parent dies, whatever
    their session. Ray has no switch for this, but runs Python between fork and exec.
    """
    within = True

    def leave_group() -> None:
        if within:
            os.setsid()

    os.register_at_fork(after_in_child=leave_group)  # for good: there is no way to take it back
    try:
        yield
    finally:
        within = False


def _join(address: str, runtime_env: dict[str, dict[str, str]]) -> None:
    way_out = "start it with `ray start --head`, or forget it: unset RAY_ADDRESS, and `ray stop`"
    host, _, port = address.rpartition(":")
    try:  # Ray itself would try for minutes
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise ClusterError(f"no Ray answers at {address}: {error}; {way_out}") from error
    try:
        ray.init(address=address, runtime_env=runtime_env, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError) as error:
        raise ClusterError(f"the Ray at {address} cannot be joined: {first_line(error)}; {way_out}") from error


def _start_local(device: str, runtime_env: dict[str, dict[str, str]]) -> None:
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"  # an actor without GPUs keeps its environment as it is
    # Ray's own 15 lets every other program of the machine starve the run. The spelling is Ray's.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    # Every actor of ours has an environment of its own, so the workers that Ray starts ahead would stay idle.
    os.environ["RAY_prestart_worker_first_driver"] = "0"  # noqa: SIM112
    for attempt in range(1, _START_ATTEMPTS + 1):
        try:
            with _sessions_of_their_own():
                ray.init(
                    address="local",
                    num_gpus=0 if device == "cpu" else None,
                    include_dashboard=False,
                    runtime_env=runtime_env,
                    object_store_memory=_LOCAL_OBJECT_STORE_BYTES,
                    logging_level=logging.ERROR,
                )
            return
        except Exception as error:  # a node that is late raises no more special kind
            if _LATE in str(error) and attempt < _START_ATTEMPTS:
                logger.warning("Ray's node did not come up in Ray's 30 s (a busy machine?); starting it again")
                ray.shutdown()
                continue
            free = os.statvfs(tempfile.gettempdir())
            raise ClusterError(
                f"a local Ray could not start: {first_line(error)} (free space in {tempfile.gettempdir()}: "
                f"{free.f_bavail * free.f_frsize >> 20} MiB; `ray stop` ends a broken cluster)"
            ) from error


def threads_per_process(processes: int) -> int:
    """CPU threads of each of several processes that compute at the same time on this host."""
    return max(1, len(os.sched_getaffinity(0)) // processes)


def host_address() -> str:
    """The address at which other nodes of the cluster reach this one."""
    return str(ray.util.get_node_ip_address())
