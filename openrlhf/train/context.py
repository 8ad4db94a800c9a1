"""Who a worker is: its rank, its device, where its group meets."""

import os
import random
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """One training process. `apply()` must run before deepspeed is imported: it reads the environment then."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    device: str = "cpu"  # "cpu" or "cuda"
    master_addr: str = "127.0.0.1"
    master_port: int = 29500
    seed: int = 42
    timeout_s: float = 1800.0  # of one collective

    @property
    def torch_device(self) -> torch.device:
        return torch.device("cuda", self.local_rank) if self.device == "cuda" else torch.device("cpu")

    def apply(self, full_determinism: bool = False) -> None:
        """Set this process's environment, device, threads and random generators."""
        os.environ.update(
            MASTER_ADDR=self.master_addr,
            MASTER_PORT=str(self.master_port),
            RANK=str(self.rank),
            WORLD_SIZE=str(self.world_size),
            LOCAL_RANK=str(self.local_rank),
            DS_ACCELERATOR=self.device,
        )
        if self.device == "cuda":
            torch.cuda.set_device(self.local_rank)
        else:
            torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // self.world_size))
        random.seed(self.seed)
        np.random.seed(self.seed)
        torch.manual_seed(self.seed)
        if full_determinism:
            os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
            torch.use_deterministic_algorithms(True)
