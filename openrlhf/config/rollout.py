"""Flags of generation: how samples are drawn, the vLLM engines that draw them, and evaluation."""

from typing import Literal

from openrlhf.config.base import Section

SyncBackend = Literal["nccl", "ipc", "shm"]


class RolloutConfig(Section):
    """One rollout: the samples between two updates of the policy."""

    batch_size: int = 1024
    """Prompts per rollout."""
    n_samples_per_prompt: int = 1
    """Samples of each prompt; they form its group."""
    micro_batch_size: int = 1
    """Sequences per process in a forward pass that computes log-probabilities, without train.dynamic_batch_enable."""
    max_tokens_per_gpu: int | None = None
    """Tokens per process in a forward pass that computes log-probabilities, with train.dynamic_batch_enable.
    None: train.max_tokens_per_gpu."""
    max_new_tokens: int | None = None
    """Tokens that one response may have. None: what data.max_len leaves after the prompt."""
    temperature: float = 1.0
    """Sampling temperature; the trainer divides its logits by the same number."""
    top_p: float = 1.0
    """Sampling keeps the most likely tokens up to this probability mass, over 0 to 1. Below 1 importance corrections
    are biased (docs/algorithms.md)."""
    vllm_generate_batch_size: int | None = None
    """Prompts sent to the engines at once. None: rollout.batch_size; more is oversampling and needs
    train.async_enable."""


class VllmConfig(Section):
    """The vLLM engines."""

    num_engines: int | None = None
    """Number of vLLM engines. None: as many as the GPUs left to them allow, or 1 on CPU."""
    tensor_parallel_size: int = 1
    """GPUs (on CPU: processes) over which one engine splits its weights. It must divide the model's attention
    heads."""
    sync_backend: SyncBackend | None = None
    """How new weights reach the engines: shm (shared memory, CPU), ipc (CUDA IPC, same GPU), nccl (other GPU).
    None: what the device and the placement call for."""
    sync_with_ray: bool = False
    """Sync weights through Ray's collective groups instead of NCCL directly."""
    enable_prefix_caching: bool = False
    """Reuse the key-value cache of shared prompt beginnings; it is emptied at every weight sync."""
    enforce_eager: bool = False
    """Do not compile or capture CUDA graphs: starts faster, generates slower."""
    enable_sleep: bool = False
    """Free the engine's GPU memory while the policy trains on the same GPU. Needs train.colocate_all."""
    gpu_memory_utilization: float = 0.95
    """Share of a GPU's memory that an engine may take, over 0 to 1."""
    max_num_seqs: int = 128
    """Requests that one engine decodes at the same time."""
    dtype: Literal["bf16", "fp16", "fp32"] | None = None
    """Number format of the engine's weights. None: ds.param_dtype."""
    cpu_kv_cache_gb: int = 1
    """Memory of an engine's key-value cache on CPU, in whole GiB, all parts of a split engine together."""
    max_restarts: int = 3
    """Times that one engine is restarted in a run when its process dies; its requests are then asked again."""


class EvalConfig(Section):
    """Evaluation on held-out prompts."""

    dataset: str | None = None
    """Prompts to evaluate on, in the same notation as data.prompt_dataset. None: no evaluation."""
    split: str = "train"
    """Split of the evaluation dataset, e.g. `test` or `train[:1%]`."""
    steps: int = -1
    """Evaluate every so many rollouts, and after the last one; -1: only where at_start asks for it."""
    temperature: float = 0.6
    """Sampling temperature of evaluation; 0 is greedy."""
    n_samples_per_prompt: int = 4
    """Samples of each evaluation prompt."""
    at_start: bool = False
    """Also evaluate before the first update and after the last one."""
    top_p: float = 1.0
    """Top-p of evaluation, over 0 to 1."""
    max_samples: int | None = None
    """Evaluate at most this many prompts. None: all."""
