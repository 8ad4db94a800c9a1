"""The processes of an engine that splits its model on CPU (`tensor_parallel_size` above 1).

    the process that made the engine -> core -> one worker per part of the weights

vLLM's multiprocessing executor starts the workers in the core. They add up their parts through vLLM's shared memory
where its CPU build has that (AVX-512), else through gloo.
"""

import ctypes
import signal

from vllm.v1.executor.multiproc_executor import MultiprocExecutor

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent() -> None:
    """Let the kernel end this process with the one that started it, also where that is killed: nothing else would,
    and the memory of an engine would be gone for the one that takes its place."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class SplitExecutor(MultiprocExecutor):
    """The workers, started from a core that ends with its parent. `WeightReceiver` does the same for the workers."""

    def _init_executor(self) -> None:
        end_with_parent()
        super()._init_executor()
