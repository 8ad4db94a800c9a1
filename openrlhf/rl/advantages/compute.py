"""From the rewards of a rollout batch to the advantage of every token."""

from dataclasses import dataclass

import numpy as np
import torch

from openrlhf.config.algo import AdvantageConfig, AdvantageMask, KlConfig
from openrlhf.rl.advantages.gae import gae
from openrlhf.rl.advantages.normalise import batch_normalise
from openrlhf.rl.advantages.registry import Estimator, estimator
from openrlhf.rl.advantages.returns import discounted_returns
from openrlhf.rl.bad_examples import token_masks
from openrlhf.rl.token_rewards import kl_penalty, terminal_rewards, with_turn_rewards
from openrlhf.types import Experience


@dataclass(frozen=True, slots=True)
class AdvantageResult:
    """What `compute_advantages` gives back; both arrays are 0 where they say nothing."""

    advantages: np.ndarray  # (B, T) float32, 0 off the loss mask
    returns: np.ndarray  # (B, T) float32, before normalisation, 0 off the action mask
    metrics: dict[str, float]


def compute_advantages(
    experience: Experience,
    advantage: AdvantageConfig,
    kl: KlConfig,
    kl_coef: float,
    advantage_mask: AdvantageMask = "none",
) -> AdvantageResult:
    """Group statistics -> KL in the reward -> returns or GAE -> batch normalisation, in float64, of a rollout batch.

    `experience.rewards` and `.turn_rewards` are final: penalties, clipping and running normalisation come before
    (`rl.shaping`). The estimator sees every sample once; each segment of a sample gets the sample's number as its
    terminal reward. Rewards of single turns (experience.turn_rewards) keep their place where tokens differ in what
    follows them, which is gae and reinforce (`rl.token_rewards`). Grouped estimators compare whole samples: every token
    gets the sample's number, and nothing is discounted (gamma 1).
    gae needs experience.values. KL enters the reward iff not kl.use_loss and kl_coef > 0; then old_logprobs and
    ref_logprobs must be there (ValueError for what is missing). Returns and values are those before normalisation.
    `advantage_mask` says what bad examples (experience.bad_examples) still shape; the advantages of those that are not
    trained on are 0.
    Raises FloatingPointError naming the row if a trained token's advantage is not finite.
    """
    chosen = estimator(advantage.estimator)
    action_mask = torch.from_numpy(experience.action_mask)
    masks = token_masks(experience, advantage_mask)
    loss_mask, statistics = torch.from_numpy(masks.trained), torch.from_numpy(masks.statistics)
    metrics: dict[str, float] = {}
    token_rewards = _token_rewards(experience, chosen)
    if not kl.use_loss and kl_coef > 0:
        penalty = kl_penalty(*_policy_and_reference(experience), action_mask, kl.estimator)
        token_rewards = token_rewards - kl_coef * penalty
        metrics["rollout/kl"] = _mean(penalty[action_mask])
    gamma = 1.0 if chosen.grouped else advantage.gamma
    if chosen.critic:
        values = _values(experience)
        estimates, returns = gae(token_rewards, values, action_mask, gamma, advantage.lambd)
        metrics |= _value_statistics(values[loss_mask].double(), returns[loss_mask])
    else:
        estimates = returns = discounted_returns(token_rewards, action_mask, gamma)
    if chosen.batch_norm:
        estimates = batch_normalise(estimates, loss_mask, advantage.no_std_norm, statistics)
    advantages = torch.where(loss_mask, estimates, 0.0)
    _require_finite(advantages, experience)
    metrics |= _statistics(advantages[loss_mask], returns[loss_mask])
    return AdvantageResult(advantages.float().numpy(), returns.float().numpy(), metrics)


def _token_rewards(experience: Experience, chosen: Estimator) -> torch.Tensor:
    """(B, T) float64: the estimator's numbers, and where they say when, the rewards of turns."""
    scores, action_mask = _sample_scores(experience, chosen), torch.from_numpy(experience.action_mask)
    if chosen.grouped or experience.turn_rewards is None:
        return terminal_rewards(scores, action_mask)
    turns, sample_ids = torch.from_numpy(experience.turn_rewards), torch.from_numpy(experience.sample_ids)
    return with_turn_rewards(scores, turns, sample_ids, action_mask)


def _sample_scores(experience: Experience, chosen: Estimator) -> torch.Tensor:
    """Return (B,) float64: the estimator's number of the sample that each row is a segment of."""
    _, first, sample = np.unique(experience.sample_ids, return_index=True, return_inverse=True)
    rewards = torch.from_numpy(experience.rewards[first])
    group_ids = torch.from_numpy(experience.group_ids[first])
    return chosen.score(rewards, group_ids)[torch.from_numpy(sample)]


def _policy_and_reference(experience: Experience) -> tuple[torch.Tensor, torch.Tensor]:
    if experience.old_logprobs is None or experience.ref_logprobs is None:
        raise ValueError("KL in the reward needs the logprobs of both the policy (old) and the reference")
    return torch.from_numpy(experience.old_logprobs), torch.from_numpy(experience.ref_logprobs)


def _values(experience: Experience) -> torch.Tensor:
    if experience.values is None:
        raise ValueError("the estimator gae needs the critic's values of every token")
    return torch.from_numpy(experience.values)


def _require_finite(advantages: torch.Tensor, experience: Experience) -> None:
    bad = (~advantages.isfinite()).any(dim=1).nonzero().flatten().tolist()
    if bad:
        raise FloatingPointError(
            f"advantages of row(s) {bad} are not finite: rewards {experience.rewards[bad].tolist()}, "
            "or the logprobs or the value of a sampled token"
        )


def _mean(values: torch.Tensor) -> float:
    return float(values.mean()) if len(values) else 0.0


def _statistics(advantages: torch.Tensor, returns: torch.Tensor) -> dict[str, float]:
    """Over the loss tokens of the batch."""
    if len(advantages) == 0:
        return {}
    return {
        "rollout/advantage_mean": _mean(advantages),
        "rollout/advantage_std": float(advantages.std(correction=0)),
        "rollout/advantage_min": float(advantages.min()),
        "rollout/advantage_max": float(advantages.max()),
        "rollout/return_mean": _mean(returns),
    }


def _value_statistics(values: torch.Tensor, returns: torch.Tensor) -> dict[str, float]:
    """How well the critic predicts, over the loss tokens: 1 - Var(R - V) / Var(R); left out for constant returns."""
    if len(values) == 0:
        return {}
    metrics = {"rollout/value_mean": _mean(values)}
    spread = float(returns.var(correction=0))
    if spread > 0:
        metrics["rollout/explained_variance"] = 1.0 - float((returns - values).var(correction=0)) / spread
    return metrics
