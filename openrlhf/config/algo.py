"""Flags of the RL algorithm: advantages, off-policy correction, KL, filtering of groups and samples."""

from typing import Literal

from openrlhf.config.base import Section

EstimatorName = Literal["gae", "reinforce", "rloo", "reinforce_baseline", "group_norm", "dr_grpo"]
CorrectionType = Literal["tis", "icepop", "seq-mask-tis", "seq-tis"]
KlEstimator = Literal["k1", "k2", "k3"]
AdvantageMask = Literal["none", "before", "after", "skip"]


class AdvantageConfig(Section):
    """From rewards to advantages."""

    estimator: EstimatorName = "gae"
    """How rewards become advantages: gae (needs a critic), reinforce (REINFORCE++), reinforce_baseline (minus the group
    mean), rloo (minus the mean of the others), group_norm (GRPO), dr_grpo (GRPO without division by the deviation)."""
    gamma: float = 1.0
    """Discount per token, 0 to 1; used by gae and reinforce."""
    lambd: float = 1.0
    """Lambda of GAE, 0 to 1: lower values lean more on the critic."""
    no_std_norm: bool = False
    """Batch normalisation of advantages subtracts the mean but does not divide by the deviation."""
    is_correction_enable: bool = False
    """Weigh token losses by the trainer's probability over the engine's, against their mismatch."""
    is_correction_type: CorrectionType = "tis"
    """Weights outside the thresholds are clamped (tis) or zeroed (icepop); a whole sequence is left out by its mean
    ratio (seq-mask-tis), or weighed by one clamped ratio (seq-tis)."""
    is_correction_threshold: tuple[float, float] = (0.5, 5.0)
    """Lowest and highest weight."""


class KlConfig(Section):
    """KL divergence from the reference."""

    init_coef: float = 0.01
    """Weight of the KL term, at the start if it adapts. 0: no KL term and no reference model."""
    target: float | None = None
    """KL per token that an adapting weight aims at. None: the weight is constant."""
    horizon: int = 10000
    """Samples over which an adapting weight moves; a larger batch counts as so many."""
    estimator: KlEstimator = "k1"
    """Estimator of the divergence per token: k1 fits the reward penalty, k2 and k3 the loss term."""
    use_loss: bool = False
    """Add KL to the loss instead of subtracting it from the reward."""


class BadExamplesConfig(Section):
    """Filters of single samples that a task marks as bad examples."""

    filter_enable: bool = False
    """Ask the task's filter about every sample; bad examples are dropped before anything is computed from them, unless
    the other flags say otherwise (docs/tasks.md)."""
    loss_mask_enable: bool = False
    """Bad examples stay in their group and in the batch, with a loss mask of 0."""
    advantage_mask: AdvantageMask = "none"
    """Bad examples stay in their group and leave before or after the batch normalisation of advantages, or shape no
    statistics of it but are trained on (skip)."""


class AlgoConfig(Section):
    """The RL algorithm."""

    advantage: AdvantageConfig = AdvantageConfig()
    kl: KlConfig = KlConfig()
    bad_examples: BadExamplesConfig = BadExamplesConfig()
    dynamic_filtering_enable: bool = False
    """Drop groups whose mean score is outside dynamic_filtering_range, or that hold a sample without a verdict, and
    draw a new prompt for each while the episode has any."""
    dynamic_filtering_range: tuple[float, float] = (0.0, 1.0)
    """Mean scores to keep, both bounds exclusive."""
