"""Workers on the ranks of one gloo group: `run` starts them from a test, each begins and ends in `rank_context`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from openrlhf.cluster.ports import free_port
from openrlhf.train.context import WorkerContext

TIME_LIMIT = 600  # seconds of one job
RANK_TIME_LIMIT = 120.0  # seconds that a rank waits for the others


def run(job: str, world_size: int, model_path: Path, out: Path, worker: str = "train_worker") -> dict[Any, Any]:
    """Run a worker's job on its ranks and return what rank 0 found."""
    port = free_port()
    environment = os.environ | {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
    command = [sys.executable, "-m", f"tests.integration.{worker}", job, str(model_path), str(out)]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(world_size), str(port)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(world_size)
    ]
    try:
        outputs = [process.communicate(timeout=TIME_LIMIT)[0] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert [process.returncode for process in ranks] == [0] * world_size, "\n".join(text[-3000:] for text in outputs)
    return torch.load(out / "result.pt", weights_only=False)


@contextmanager
def rank_context(rank: str, world_size: str, port: str, timeout_s: float = RANK_TIME_LIMIT) -> Iterator[WorkerContext]:
    """A worker's context; after the block, when every rank has come to its end, the process ends.

    It ends at once: taken down step by step it may meet gloo's threads, also after it has left its group: "terminate
    called without an active exception", exit status -6 (pytorch issue 190489).
    """
    yield WorkerContext(rank=int(rank), world_size=int(world_size), master_port=int(port), timeout_s=timeout_s)
    torch.distributed.barrier()
    sys.stdout.flush()
    os._exit(0)
