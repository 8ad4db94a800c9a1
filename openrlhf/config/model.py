"""Flags of the models that a run holds: actor (the policy), critic, reference."""

from typing import Literal

from openrlhf.config.base import Section

LossAggregation = Literal["token", "sequence", "constant"]
PolicyLossType = Literal["ppo", "gspo", "cispo"]
LrScheduler = Literal["cosine_with_min_lr", "cosine", "linear", "constant", "constant_with_warmup"]


class AdamConfig(Section):
    """AdamW."""

    lr: float = 1e-6
    """Peak learning rate of AdamW, reached after the warm-up."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Decay rates of the running mean and of the running square of the gradient."""
    eps: float = 1e-8
    """Added to the denominator of the update against division by zero."""
    weight_decay: float = 0.0
    """Decoupled weight decay, a fraction of the weight per unit of learning rate."""


class CriticAdamConfig(AdamConfig):
    """AdamW of the critic."""

    lr: float = 9e-6
    """Peak learning rate of AdamW, reached after the warm-up."""


class MuonConfig(Section):
    """Muon for 2-D weights; embeddings, heads and 1-D parameters then use the Adam settings."""

    lr: float = 0.02
    """Learning rate of the 2-D weights."""
    momentum: float = 0.95
    """Momentum of the 2-D weights."""
    ns_steps: int = 5
    """Newton-Schulz iterations per update. DeepSpeed always takes 5."""
    nesterov: bool = True
    """Nesterov momentum. DeepSpeed always uses it."""


class ActorConfig(Section):
    """The policy that is trained."""

    model_name_or_path: str | None = None
    """Hugging Face name or local folder of the causal LM to train. Required."""
    num_nodes: int = 1
    """Nodes that train the actor."""
    num_gpus_per_node: int | None = None
    """GPUs per node that train the actor; on CPU, processes per node. None: all GPUs of this machine that the
    placement leaves to it, or 1 process on CPU."""
    optim: Literal["adam", "muon"] = "adam"
    """Optimiser."""
    adam: AdamConfig = AdamConfig()
    muon: MuonConfig = MuonConfig()
    lr_scheduler: LrScheduler = "cosine_with_min_lr"
    """Shape of the learning rate after the warm-up."""
    lr_warmup_ratio: float = 0.03
    """Share of all optimiser steps in which the learning rate rises linearly, 0 to 1."""
    min_lr_ratio: float = 0.1
    """Lowest learning rate of cosine_with_min_lr as a share of the peak, 0 to 1."""
    max_norm: float = 1.0
    """Gradients are scaled down to this global 2-norm; 0 turns clipping off."""
    eps_clip: float = 0.2
    """PPO clip range on both sides of a ratio of 1."""
    eps_clip_low_high: tuple[float, float] | None = None
    """PPO clip range below and above a ratio of 1, e.g. `0.2 0.28`. None: eps_clip on both sides."""
    dual_clip: float | None = None
    """Bound c > 1 on the loss of tokens with a negative advantage A, at -c*A (typical 3). None: no bound."""
    policy_loss_type: PolicyLossType = "ppo"
    """Policy loss: clipped token ratios (ppo), one clipped ratio per sequence (gspo), or clipped token ratios as
    constant weights of the log-probabilities (cispo)."""
    loss_aggregation: LossAggregation = "token"
    """How token losses become one number: mean over all tokens of the optimiser step, mean over sequences of their
    token means, or sum over tokens divided by sequences times rollout.max_new_tokens (constant). gspo takes sequence,
    and only that."""
    entropy_coef: float | None = None
    """Weight of the entropy bonus. 0: entropy is only logged. None: not computed."""
    aux_loss_coef: float = 0.0
    """Weight of the load-balancing loss of mixture-of-experts models."""
    gradient_checkpointing_enable: bool = False
    """Recompute activations in the backward pass: less memory, more time."""
    gradient_checkpointing_reentrant: bool = False
    """Use PyTorch's re-entrant variant of gradient checkpointing."""
    freeze_visual_encoder: bool = False
    """Train and sync the language model only; the vision encoder and its projector keep their weights."""


class CriticConfig(Section):
    """The value model of PPO with GAE. It exists only with algo.advantage.estimator gae."""

    model_name_or_path: str | None = None
    """Hugging Face name or local folder the critic starts from. None: the first reward model, else the actor's."""
    num_nodes: int = 1
    """Nodes that train the critic."""
    num_gpus_per_node: int | None = None
    """GPUs per node that train the critic; on CPU, processes per node. None: as many as the actor."""
    optim: Literal["adam", "muon"] = "adam"
    """Optimiser."""
    adam: CriticAdamConfig = CriticAdamConfig()
    muon: MuonConfig = MuonConfig()
    lr_scheduler: LrScheduler = "cosine_with_min_lr"
    """Shape of the learning rate after the warm-up."""
    lr_warmup_ratio: float = 0.03
    """Share of all optimiser steps in which the learning rate rises linearly, 0 to 1."""
    min_lr_ratio: float = 0.1
    """Lowest learning rate of cosine_with_min_lr as a share of the peak, 0 to 1."""
    max_norm: float = 1.0
    """Gradients are scaled down to this global 2-norm; 0 turns clipping off."""
    value_clip: float = 0.5
    """How far a value may move from the one recorded with the rollout."""
    freezing_steps: int = -1
    """Rollouts at the start in which only the critic is trained; -1 or 0: none."""
    save_value_network: bool = False
    """Save the critic at the end, in a folder named like ckpt.output_dir with `_critic` after it."""


class RefConfig(Section):
    """The frozen reference model of the KL term. It exists only when algo.kl.init_coef > 0."""

    model_name_or_path: str | None = None
    """Hugging Face name or local folder of the reference. None: the actor's."""
    num_nodes: int = 1
    """Nodes that hold the reference."""
    num_gpus_per_node: int | None = None
    """GPUs per node that hold the reference; on CPU, processes per node. None: as many as the actor."""
    offload: bool = False
    """Keep the reference's weights in CPU memory between its forward passes."""
