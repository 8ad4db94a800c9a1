"""Flags of training: batches, length of the run, placement, and DeepSpeed."""

from typing import Literal

from openrlhf.config.base import Section

ParamDtype = Literal["bf16", "fp16", "fp32"]


class TrainConfig(Section):
    """The optimisation loop."""

    batch_size: int = 128
    """Samples per optimiser step, over all processes."""
    micro_batch_size: int = 1
    """Sequences per process in one forward and backward pass; unused with dynamic_batch_enable."""
    max_epochs: int = 1
    """Passes over the samples of one rollout."""
    num_episodes: int = 1
    """Passes over the prompt set."""
    max_steps: int | None = None
    """Stop after so many rollouts. None: when the episodes are over."""
    seed: int = 42
    """Seed of everything random."""
    full_determinism_enable: bool = False
    """The same seed gives the same run: deterministic kernels, one seed per request, fixed batches in the engines."""
    dynamic_batch_enable: bool = False
    """Form micro-batches by tokens instead of sequences."""
    max_tokens_per_gpu: int = 16192
    """Tokens per process in one forward and backward pass, with dynamic_batch_enable."""
    colocate_all: bool = False
    """All models and the vLLM engines share the same GPUs."""
    colocate_actor_ref: bool = False
    """Actor and reference share the same GPUs."""
    colocate_critic_reward: bool = False
    """Critic and reward model share the same GPUs."""
    agent_func_path: str | None = None
    """Python file with a class `AgentExecutor` that runs and rewards the episodes (docs/agents.md). None: one response
    per prompt, rewarded by reward.remote_url or reward.model_name_or_path."""
    async_enable: bool = False
    """Generate and train at the same time: samples are trained on some updates after they were made."""
    async_queue_size: int = 1
    """How far generation may be ahead of training, in rollout batches, samples in flight included."""
    partial_rollout_enable: bool = False
    """Push weights under running requests, which go on with the new ones instead of being waited for: their tokens are
    of several policy versions, each labelled. Needs async_enable."""
    mask_stale_tokens: bool = False
    """Train only on those tokens of a sample that are of the newest policy among its tokens. Needs async_enable."""
    max_staleness: int | None = None
    """Updates that may lie between a sample and the step that trains on it; an older one is dropped, its prompt drawn
    once more. None: no limit."""
    enable_ema: bool = False
    """Keep an exponential moving average of the actor's weights and export that instead of them. Rollouts, evaluation
    and the best checkpoint go by the weights themselves."""
    ema_beta: float = 0.992
    """Decay of the moving average per optimiser step."""


class LoraConfig(Section):
    """Low-rank adapters."""

    rank: int = 0
    """Rank of the adapters; 0: full training."""
    alpha: int = 16
    """Scale of the adapters."""
    target_modules: tuple[str, ...] = ("all-linear",)
    """Modules that get adapters."""
    dropout: float = 0.0
    """Dropout before the adapters."""


class DsConfig(Section):
    """DeepSpeed, and how models are loaded."""

    zero_stage: Literal[0, 1, 2, 3] = 2
    """ZeRO stage: what is sharded over processes (1: optimiser, 2: and gradients, 3: and weights)."""
    param_dtype: ParamDtype | None = None
    """Number format of weights and activations. None: bf16, and fp32 on a CPU without bf16 instructions."""
    adam_offload: bool = False
    """Keep and step the optimiser in CPU memory."""
    attn_implementation: str | None = None
    """Attention kernel in transformers' naming (sdpa, eager, flash_attention_2, ...).
    None: flash_attention_2 on GPU where installed, else sdpa."""
    experts_implementation: Literal["eager", "batched_mm", "grouped_mm", "deepgemm"] | None = None
    """How experts of mixture-of-experts models are computed. None: transformers chooses."""
    grad_accum_dtype: ParamDtype | None = None
    """Number format in which gradients are accumulated. None: fp32."""
    overlap_comm: bool = False
    """Reduce gradients while the backward pass runs."""
    packing_samples: bool = True
    """Lay sequences end to end instead of padding them, where the model keeps them apart, which is tried when it is
    loaded. Turn off with --ds.no-packing_samples."""
    share_prompts: bool = True
    """Compute a prompt once for all its samples in a packed micro-batch, where the attention kernel allows it (sdpa or
    eager, full attention). Same numbers, fewer tokens."""
    enable_sleep: bool = False
    """Move the trainer's states off the GPU while the engines generate. Needs train.colocate_all."""
    deepcompile: bool = False
    """DeepSpeed's graph compilation."""
    value_head_prefix: str = "score"
    """Name of the scalar head of a reward model or critic."""
    zpg: int = 1
    """ZeRO++ size of the secondary partition."""
    use_liger_kernel: bool = False
    """Use Liger kernels."""
    load_in_4bit: bool = False
    """Load the base model in 4 bit."""
    lora: LoraConfig = LoraConfig()
    ring_attn_size: int = 1
    """Processes that share one sequence by ring attention."""
    ring_attn_head_stride: int = 1
    """Heads that ring attention handles at a time."""
    tensor_parallel_size: int = 1
    """Processes over which DeepSpeed splits each weight."""
    use_universal_ckpt: bool = False
    """Write checkpoints that load at any number of processes."""

    @property
    def dtype(self) -> ParamDtype:
        """param_dtype of a resolved config; ValueError where resolve() has not set it."""
        if self.param_dtype is None:
            raise ValueError("ds.param_dtype is not set: resolve the config first")
        return self.param_dtype
