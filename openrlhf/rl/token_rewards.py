"""Which token a reward stands on.

A sample's reward stands on its last action token. Where the environment rewarded turns (`Experience.turn_rewards`),
each of those stands on its turn's last action, and the last action gets what is left, so that the return at the first
action of a sample is its reward, whatever was clipped, penalised or normalised before. Both are in one unit:
`rl.shaping` scales the rewards of turns as it scales their sample's.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch

from openrlhf.rl.kl import kl_estimate
from openrlhf.types import Turn

KL_PENALTY_LIMIT = 10.0  # on the KL of one token in the reward: one wild token must not drown the verdict


def terminal_rewards(rewards: torch.Tensor, action_mask: torch.Tensor) -> torch.Tensor:
    """Return (B, T) float64 with rewards (B,) at the LAST ACTION token of each row, 0 elsewhere.

    The last token of a row may be the environment's; a reward there would be lost. A row without actions gets none.
    """
    placed = torch.zeros(action_mask.shape, dtype=torch.float64)
    acting = action_mask.any(dim=1).nonzero().squeeze(-1)
    last = action_mask.shape[1] - 1 - action_mask[acting].long().flip(1).argmax(dim=1)
    placed[acting, last] = rewards[acting].double()
    return placed


def with_turn_rewards(
    rewards: torch.Tensor, turns: torch.Tensor, sample_ids: torch.Tensor, action_mask: torch.Tensor
) -> torch.Tensor:
    """Return (B, T) float64: turns (B, T) where they stand, and at each row's last action token what is left.

    rewards (B,) is the sample's reward on each of its rows, in the unit of `turns`; rows of one sample are its
    segments, in order. What is left after segment k is the reward minus the turn rewards of segments 1 to k: they have
    been earned by then. So the undiscounted return at a token is the sample's reward minus what its earlier turns gave.
    Example: one row, reward 1, turns 0.25 at token 1, actions at 1 and 3 -> [0, 0.25, 0, 0.75].
    """
    earned: dict[int, float] = defaultdict(float)
    left = rewards.double().clone()
    for row, (sample, gain) in enumerate(zip(sample_ids.tolist(), turns.double().sum(dim=1).tolist(), strict=True)):
        earned[sample] += gain
        left[row] -= earned[sample]
    return turns.double() + terminal_rewards(left, action_mask)


def turn_rewards(turns: Sequence[Turn], action_mask: np.ndarray) -> np.ndarray:
    """Return (L,) float64 with each turn's reward at the turn's last action token, for one segment's mask (L,).

    A turn without a reward adds nothing; a rewarded turn without an action raises ValueError.
    """
    placed = np.zeros(len(action_mask), dtype=np.float64)
    for turn in turns:
        if turn.reward is None:
            continue
        actions = np.flatnonzero(action_mask[turn.start : turn.end])
        if len(actions) == 0:
            raise ValueError(f"turn [{turn.start}, {turn.end}) has reward {turn.reward} but no action token")
        placed[turn.start + actions[-1]] += turn.reward
    return placed


def kl_penalty(
    logprobs: torch.Tensor, ref_logprobs: torch.Tensor, action_mask: torch.Tensor, estimator: str
) -> torch.Tensor:
    """Return (B, T) float64: the KL estimate of every action token, clamped to +-10, 0 elsewhere.

    Values off the action mask are never read. The reward of a token then loses coef * penalty.
    """
    penalty = torch.zeros(action_mask.shape, dtype=torch.float64)
    selected = kl_estimate(logprobs[action_mask].double(), ref_logprobs[action_mask].double(), estimator)
    penalty[action_mask] = selected.clamp(-KL_PENALTY_LIMIT, KL_PENALTY_LIMIT)
    return penalty
