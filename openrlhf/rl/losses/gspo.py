"""Group sequence policy optimisation (Zheng et al. 2025): one ratio per sequence."""

from openrlhf.rl.kl import LOG_RATIO_LIMIT
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.losses.surrogate import TokenLosses, clipped_surrogate
from openrlhf.rl.losses.tokens import LossTokens
from openrlhf.rl.streams import bounded, sequence_mean


def gspo(tokens: LossTokens, objective: PolicyObjective) -> TokenLosses:
    """The clipped surrogate of each sequence's ratio, given to all its loss tokens, (M,).

        ratio = exp(clamp(mean over the sequence's loss tokens of new - behaviour, +-20))

    The behaviour policy is `old`; with an importance correction it is what sampled the tokens, `rollout`, and then no
    further weight applies: the ratio itself is the correction.
    """
    behaviour = tokens.old if objective.correction is None else tokens.rollout
    means = sequence_mean(tokens.new - behaviour, tokens.sequence, tokens.num_sequences)
    ratio = bounded(means[tokens.sequence], LOG_RATIO_LIMIT).exp()
    return clipped_surrogate(ratio, tokens.advantages, objective)
