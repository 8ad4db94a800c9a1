"""Environment variables that vLLM reads once, at import: set them before the process imports it."""

import logging
from typing import Literal


def engine_environment(device: Literal["cpu", "cuda"], threads: int) -> dict[str, str]:
    """Return the variables of an engine's process (a Ray actor's `runtime_env`).

    `threads` is the number of CPU threads of one worker (of an engine that is not split); it matters on CPU only.
    """
    common = {
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        # Deprecations inside vLLM and torch, and remarks on NUMA: nothing a user could act on.
        "PYTHONWARNINGS": "ignore",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        # Weight syncs hand CUDA IPC handles to the engine's processes, which vLLM's plain messages cannot carry.
        "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",
    }
    if device == "cuda":
        return common
    return common | {
        # The engine core runs in its own process anyway; this drops the third one, a worker. A split engine has them.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "OMP_NUM_THREADS": str(threads),
        # vLLM's own binding pins every engine to the same cores.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        # Sampler and logprob code is compiled even in eager mode: seconds at the first request, nothing gained.
        "TORCHDYNAMO_DISABLE": "1",
    }


def silence_import() -> None:
    """Call before importing vLLM: it remarks on Triton before it has looked at VLLM_LOGGING_LEVEL."""
    logging.getLogger("vllm.triton_utils.importing").setLevel(logging.ERROR)
