"""What follows from the device: CPU and GPU run the same code with other kernels and another transport."""

from openrlhf.config.attention import FLASH_PACKAGE, choose_attention
from openrlhf.config.draft import Draft
from openrlhf.config.optimiser import has_critic


def resolve_device(draft: Draft) -> None:
    """Fix the device and everything that depends on it and on nothing else."""
    if draft.config.device == "auto":
        draft.set("device", "cuda" if draft.machine.num_gpus else "cpu")
    elif draft.config.device == "cuda" and not draft.machine.num_gpus and not draft.cluster:
        draft.problem("--device cuda: torch sees no GPU on this machine; use --device cpu, or install a CUDA build")
    if draft.config.device == "cpu":
        _cpu(draft)
    else:
        _gpu(draft)
    _attention(draft)
    _dtype(draft)
    if draft.config.vllm.dtype is None:
        draft.set("vllm.dtype", draft.config.ds.param_dtype)
    elif draft.config.vllm.dtype != draft.config.ds.param_dtype:
        draft.warn(
            f"--vllm.dtype {draft.config.vllm.dtype}: the trainer computes in {draft.config.ds.param_dtype}, so "
            "log-probabilities of engine and trainer will differ"
        )


def _attention(draft: Draft) -> None:
    asked = draft.config.ds.attn_implementation
    # A cluster's GPU machines may have a package that this one has not: what was asked for is left to them.
    has_flash = FLASH_PACKAGE in draft.machine.packages or (draft.cluster and asked is not None)
    chosen = choose_attention(asked, draft.config.device, has_flash)
    draft.warnings += chosen.warnings
    draft.problems += chosen.problems
    draft.set("ds.attn_implementation", chosen.kernel)


def _dtype(draft: Draft) -> None:
    slow = draft.config.device == "cpu" and not draft.machine.cpu_has_bf16
    if draft.config.ds.param_dtype is None:
        draft.set("ds.param_dtype", "fp32" if slow else "bf16")
    elif draft.config.ds.param_dtype == "bf16" and slow:
        draft.warn("--ds.param_dtype bf16: this CPU has no bf16 instructions, so it is slow; fp32 is faster here")


def _off(draft: Draft, path: str, reason: str) -> None:
    draft.warn(f"--{path} is switched off: {reason}")
    draft.set(path, False)


def _cpu(draft: Draft) -> None:
    config = draft.config
    if config.vllm.sync_backend not in (None, "shm"):
        draft.warn(f"--vllm.sync_backend {config.vllm.sync_backend} needs GPUs; using shm (shared memory)")
    draft.set("vllm.sync_backend", "shm")
    for path, dtype in (("ds.param_dtype", config.ds.param_dtype), ("vllm.dtype", config.vllm.dtype)):
        if dtype == "fp16":
            draft.problem(f"--{path} fp16: not on CPU; use bf16 or fp32")
    if "vllm.enforce_eager" in draft.given and not config.vllm.enforce_eager:
        draft.warn("--vllm.enforce_eager False: engines on CPU always run eagerly; using True")
    draft.set("vllm.enforce_eager", True)
    if config.vllm.enable_sleep:
        _off(draft, "vllm.enable_sleep", "there is no GPU memory to free on CPU")
    if config.ds.enable_sleep:
        _off(draft, "ds.enable_sleep", "there is no GPU memory to free on CPU")
    if config.ds.adam_offload:
        _off(draft, "ds.adam_offload", "the optimiser is in CPU memory already")


def _gpu(draft: Draft) -> None:
    config = draft.config
    if config.vllm.enable_sleep and not config.train.colocate_all:
        _off(draft, "vllm.enable_sleep", "it frees a shared GPU, which needs --train.colocate_all")
    if config.ds.enable_sleep and not config.train.colocate_all:
        _off(draft, "ds.enable_sleep", "it frees a shared GPU, which needs --train.colocate_all")
    if draft.config.ds.enable_sleep and config.ds.zero_stage == 0:
        draft.problem("--ds.enable_sleep: ZeRO stage 0 has no states to move; use --ds.zero_stage 1 or more")
    if draft.config.ds.enable_sleep and "muon" in (config.actor.optim, has_critic(config) and config.critic.optim):
        draft.problem("--ds.enable_sleep: the states of Muon cannot leave the GPU; use --actor.optim adam (and critic)")
    if config.ds.adam_offload and config.ds.zero_stage == 0:
        draft.problem("--ds.adam_offload: ZeRO stage 0 cannot offload; use --ds.zero_stage 1 or more")
    _gpu_sync(draft)


def _gpu_sync(draft: Draft) -> None:
    backend, colocated = draft.config.vllm.sync_backend, draft.config.train.colocate_all
    if backend == "shm":
        draft.problem("--vllm.sync_backend shm is for CPU; leave it out, or use nccl")
    elif backend == "ipc" and not colocated:
        draft.problem(
            "--vllm.sync_backend ipc needs trainer and engine on one GPU; add --train.colocate_all, or use nccl"
        )
    elif backend == "nccl" and colocated:
        draft.warn("--vllm.sync_backend nccl: two ranks cannot share a GPU, so with --train.colocate_all it is ipc")
    if backend != "shm":
        draft.set("vllm.sync_backend", "ipc" if colocated else "nccl")
