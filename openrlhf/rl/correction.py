"""Importance weights against the difference between the trainer's and the engine's probabilities.

With w = exp(old - rollout), detached, for every loss token:

    tis           clamp(w, low, high)                                    (truncated importance sampling)
    icepop        w where low <= w <= high, else 0
    seq-mask-tis  clamp(w, low, high) where low <= exp(mean over the sequence's loss tokens of old - rollout) <= high,
                  else 0 for the whole sequence

A zeroed token stays in the loss's denominator. The exponent is clamped to +-20.
"""

from dataclasses import dataclass

import torch

from openrlhf.config.algo import AdvantageConfig, CorrectionType
from openrlhf.rl.kl import LOG_RATIO_LIMIT
from openrlhf.rl.metrics import MetricSum
from openrlhf.rl.streams import bounded, sequence_sum


@dataclass(frozen=True, slots=True)
class Correction:
    """Which correction, and its thresholds on the weight."""

    kind: CorrectionType
    low: float
    high: float

    @classmethod
    def from_config(cls, advantage: AdvantageConfig) -> "Correction | None":
        """None where the correction is off."""
        if not advantage.is_correction_enable:
            return None
        return cls(advantage.is_correction_type, *advantage.is_correction_threshold)


@dataclass(frozen=True, slots=True)
class ImportanceWeights:
    """All (M,), one entry per loss token, without gradient."""

    weight: torch.Tensor  # what the token's loss is multiplied by
    raw: torch.Tensor  # exp(old - rollout), before thresholds
    clamped: torch.Tensor  # bool: the weight was truncated
    masked: torch.Tensor  # bool: the weight was set to 0


def importance_weights(
    old: torch.Tensor, rollout: torch.Tensor, sequence: torch.Tensor, num_sequences: int, correction: Correction
) -> ImportanceWeights:
    """Weigh the loss tokens, already selected: old, rollout, sequence (M,). Not finite inputs give NaN weights."""
    log_ratio = bounded(old.detach() - rollout, LOG_RATIO_LIMIT)
    raw = log_ratio.exp()
    truncated = raw.clamp(correction.low, correction.high)
    if correction.kind == "tis":
        nothing = torch.zeros_like(raw, dtype=torch.bool)
        return ImportanceWeights(truncated, raw, truncated != raw, nothing)
    if correction.kind == "icepop":
        masked = (raw < correction.low) | (raw > correction.high)
        return ImportanceWeights(raw.masked_fill(masked, 0.0), raw, torch.zeros_like(masked), masked)
    if correction.kind == "seq-mask-tis":
        counts = sequence_sum(torch.ones_like(raw), sequence, num_sequences).clamp(min=1)
        mean_ratio = (sequence_sum(log_ratio, sequence, num_sequences) / counts).exp()
        masked = ((mean_ratio < correction.low) | (mean_ratio > correction.high))[sequence]
        return ImportanceWeights(truncated.masked_fill(masked, 0.0), raw, (truncated != raw) & ~masked, masked)
    raise ValueError(f"unknown importance correction {correction.kind!r}, one of tis, icepop, seq-mask-tis is possible")


def weight_metrics(weights: ImportanceWeights) -> dict[str, MetricSum]:
    """Mean and maximum of the raw weights, effective sample size of the applied ones, shares clamped and masked."""
    count = float(len(weights.raw))
    if count == 0:
        return {}
    applied, raw = weights.weight.double(), weights.raw.double()
    sums = torch.stack(
        [
            raw.sum(),
            raw.max(),
            applied.sum(),
            applied.square().sum(),
            weights.clamped.double().sum(),
            weights.masked.double().sum(),
        ]
    ).tolist()
    return {
        "train/is_weight_mean": MetricSum(sums[0], count),
        "train/is_weight_max": MetricSum(sums[1], count, "max"),
        "train/is_ess": MetricSum(sums[2], count, "ess", sums[3]),
        "train/is_clamped_rate": MetricSum(sums[4], count),
        "train/is_masked_rate": MetricSum(sums[5], count),
    }
