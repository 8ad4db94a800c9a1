"""How the losses of tokens become one number. With N loss tokens and S sequences in the whole optimiser step:

    token      sum over loss tokens / N
    sequence   sum over sequences of their mean over loss tokens / S
    constant   sum over loss tokens / (S * L), L the same for every sequence (Liu et al. 2025, "Dr. GRPO")

S counts sequences with at least one loss token. `sequence` gives a token of a short response more weight than one of a
long response; `token` and `constant` do not, and `constant` also does not let a long response shrink its neighbours.
"""

from dataclasses import dataclass

import torch

from openrlhf.config.model import ActorConfig, LossAggregation
from openrlhf.rl.streams import sequence_sum
from openrlhf.types import StepTotals


@dataclass(frozen=True, slots=True)
class TokenWeights:
    """Each of M loss tokens' weight in the aggregate, and how many tokens or sequences the micro-batch holds."""

    weight: torch.Tensor  # (M,)
    count: torch.Tensor  # scalar: loss tokens, or sequences that have one

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """The weighted sum of values (M,); the step's denominator is still to come."""
        return (values * self.weight).sum()


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One of the three modes; `length` is the L of `constant` and None for the others (else ValueError)."""

    mode: LossAggregation = "token"
    length: int | None = None

    def __post_init__(self) -> None:
        if self.mode != "constant" and self.length is not None:
            raise ValueError(f"loss aggregation {self.mode!r} takes no length, got {self.length}")
        if self.mode == "constant" and (self.length is None or self.length < 1):
            raise ValueError(f"loss aggregation 'constant' needs a length of at least 1, got {self.length}")

    @classmethod
    def from_config(cls, actor: ActorConfig, max_new_tokens: int | None) -> "Aggregation":
        """max_new_tokens: the longest response there can be; only `constant` reads it."""
        return cls(actor.loss_aggregation, max_new_tokens if actor.loss_aggregation == "constant" else None)

    @property
    def for_metrics(self) -> "Aggregation":
        """How per-token numbers are logged: like the loss, but with `constant` as a mean over tokens."""
        return TOKEN_MEAN if self.mode == "constant" else self

    def denominator(self, totals: StepTotals) -> float:
        """What the summed shares of a step are divided by; 1 for a step without loss tokens."""
        return (totals.tokens if self.mode == "token" else totals.sequences) or 1.0

    def weigh(self, sequence: torch.Tensor, num_sequences: int, like: torch.Tensor) -> TokenWeights:
        """Weights for loss tokens of the sequences (M,) they belong to, in the dtype of `like` (M,)."""
        ones = torch.ones_like(like, requires_grad=False)
        if self.mode == "token":
            return TokenWeights(ones, ones.sum())
        per_sequence = sequence_sum(ones, sequence, num_sequences)
        present = (per_sequence > 0).sum()
        if self.mode == "sequence":
            return TokenWeights(ones / per_sequence[sequence], present)
        assert self.length is not None
        return TokenWeights(ones / self.length, present)


TOKEN_MEAN = Aggregation("token")
