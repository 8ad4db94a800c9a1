"""PPO (Schulman et al. 2017): one ratio per token."""

from openrlhf.rl.kl import LOG_RATIO_LIMIT
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.losses.surrogate import TokenLosses, clipped_surrogate
from openrlhf.rl.losses.tokens import LossTokens
from openrlhf.rl.streams import bounded


def ppo(tokens: LossTokens, objective: PolicyObjective) -> TokenLosses:
    """The clipped surrogate of ratio_t = exp(clamp(new_t - old_t, +-20)), (M,)."""
    ratio = bounded(tokens.new - tokens.old, LOG_RATIO_LIMIT).exp()
    return clipped_surrogate(ratio, tokens.advantages, objective)
