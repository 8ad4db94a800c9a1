"""Importance weights against the difference between the trainer's and the engine's probabilities.

The engine sampled from `rollout`, the trainer's own weights give `old`. With w_t = exp(old_t - rollout_t), detached,
for every loss token t of a sequence s:

    tis           clamp(w_t, low, high)                                   truncated importance sampling
    icepop        w_t where low <= w_t <= high, else 0
    seq-mask-tis  clamp(w_t, low, high) where low <= (geometric mean of w over s) <= high, else 0 for all of s
    seq-tis       clamp(W_s, low, high) for all of s, W_s = product of w over s

A zeroed token stays in the loss's denominator. Every exponent is clamped to +-20.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from openrlhf.config.algo import AdvantageConfig, CorrectionType
from openrlhf.rl.kl import LOG_RATIO_LIMIT
from openrlhf.rl.metrics import MetricSum
from openrlhf.rl.streams import bounded, sequence_mean, sequence_sum


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
    raw: torch.Tensor  # the same before thresholds
    clamped: torch.Tensor  # bool: the weight was truncated
    masked: torch.Tensor  # bool: the weight was set to 0


@dataclass(frozen=True, slots=True)
class _LogRatios:
    """old - rollout of M loss tokens, each within +-20, and the sequences they belong to."""

    values: torch.Tensor  # (M,)
    sequence: torch.Tensor  # (M,)
    num_sequences: int


def importance_weights(
    old: torch.Tensor, rollout: torch.Tensor, sequence: torch.Tensor, num_sequences: int, correction: Correction
) -> ImportanceWeights:
    """Weigh the loss tokens, already selected: old, rollout, sequence (M,). Not finite inputs give NaN weights."""
    if correction.kind not in CORRECTIONS:
        raise ValueError(
            f"unknown importance correction {correction.kind!r}, one of {', '.join(CORRECTIONS)} is possible"
        )
    ratios = _LogRatios(bounded(old.detach() - rollout, LOG_RATIO_LIMIT), sequence, num_sequences)
    return CORRECTIONS[correction.kind](ratios, correction)


def _tis(ratios: _LogRatios, limits: Correction) -> ImportanceWeights:
    return _truncated(ratios.values.exp(), limits)


def _icepop(ratios: _LogRatios, limits: Correction) -> ImportanceWeights:
    raw = ratios.values.exp()
    masked = _outside(raw, limits)
    return ImportanceWeights(raw.masked_fill(masked, 0.0), raw, torch.zeros_like(masked), masked)


def _seq_mask_tis(ratios: _LogRatios, limits: Correction) -> ImportanceWeights:
    geometric_mean = sequence_mean(ratios.values, ratios.sequence, ratios.num_sequences).exp()
    masked = _outside(geometric_mean, limits)[ratios.sequence]
    tokens = _truncated(ratios.values.exp(), limits)
    return ImportanceWeights(tokens.weight.masked_fill(masked, 0.0), tokens.raw, tokens.clamped & ~masked, masked)


def _seq_tis(ratios: _LogRatios, limits: Correction) -> ImportanceWeights:
    log_product = sequence_sum(ratios.values, ratios.sequence, ratios.num_sequences)
    return _truncated(bounded(log_product, LOG_RATIO_LIMIT).exp()[ratios.sequence], limits)


def _truncated(raw: torch.Tensor, limits: Correction) -> ImportanceWeights:
    weight = raw.clamp(limits.low, limits.high)
    return ImportanceWeights(weight, raw, weight != raw, torch.zeros_like(raw, dtype=torch.bool))


def _outside(weight: torch.Tensor, limits: Correction) -> torch.Tensor:
    return (weight < limits.low) | (weight > limits.high)


CORRECTIONS: dict[str, Callable[[_LogRatios, Correction], ImportanceWeights]] = {
    "tis": _tis,
    "icepop": _icepop,
    "seq-mask-tis": _seq_mask_tis,
    "seq-tis": _seq_tis,
}


def raw_weight_metrics(weights: ImportanceWeights) -> dict[str, MetricSum]:
    """Mean, maximum and effective sample size of the weights before thresholds, over loss tokens."""
    count = float(len(weights.raw))
    if count == 0:
        return {}
    raw = weights.raw.double()
    total, squares, highest = torch.stack([raw.sum(), raw.square().sum(), raw.max()]).tolist()
    return {
        "train/is_weight_mean": MetricSum(total, count),
        "train/is_weight_max": MetricSum(highest, count, "max"),
        "train/is_ess": MetricSum(total, count, "ess", squares),
    }


def weight_metrics(weights: ImportanceWeights) -> dict[str, MetricSum]:
    """`raw_weight_metrics`, and the shares of loss tokens whose weight was clamped and masked."""
    count = float(len(weights.raw))
    if count == 0:
        return {}
    clamped, masked = torch.stack([weights.clamped.sum(), weights.masked.sum()]).tolist()
    return raw_weight_metrics(weights) | {
        "train/is_clamped_rate": MetricSum(float(clamped), count),
        "train/is_masked_rate": MetricSum(float(masked), count),
    }
