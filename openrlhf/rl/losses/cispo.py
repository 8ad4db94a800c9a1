"""Clipped importance sampling policy optimisation (MiniMax 2025, "MiniMax-M1"): clip the weight, keep every token."""

from openrlhf.rl.kl import LOG_RATIO_LIMIT
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.losses.surrogate import TokenLosses
from openrlhf.rl.losses.tokens import LossTokens
from openrlhf.rl.streams import bounded


def cispo(tokens: LossTokens, objective: PolicyObjective) -> TokenLosses:
    """Return -sg(clip(ratio_t, 1 - low, 1 + high)) A_t new_t, (M,); sg: no gradient through it.

    ratio_t = exp(clamp(new_t - old_t, +-20)). Where PPO's clip stops the gradient of a token, here its weight is
    bounded and the gradient goes on. The value of this loss means nothing by itself; its gradient does.
    """
    ratio = bounded((tokens.new - tokens.old).detach(), LOG_RATIO_LIMIT).exp()
    weight = ratio.clamp(1 - objective.clip_low, 1 + objective.clip_high)
    return TokenLosses(-weight * tokens.advantages * tokens.new, weight != ratio)
