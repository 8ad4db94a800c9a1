"""Discounted returns over the tokens that the policy sampled."""

import torch


def discounted_returns(token_rewards: torch.Tensor, action_mask: torch.Tensor, gamma: float) -> torch.Tensor:
    """Return G (B, T) float64: G_t = r_t + gamma * G_next, where next is the next ACTION token; 0 off the action mask.

    Tokens of the environment between two turns are no steps: they neither discount nor end the return, and whatever
    reward stands on them is ignored, NaN included.
    Example: rewards [9, 1, 9, 2], action mask [0, 1, 0, 1], gamma 0.5 -> [0, 2, 0, 2].
    """
    rewards = torch.where(action_mask, token_rewards.double(), 0.0)
    if gamma == 1.0:
        returns = rewards.flip(1).cumsum(1).flip(1)
    else:
        returns = torch.empty_like(rewards)
        carry = rewards.new_zeros(len(rewards))
        for t in range(rewards.shape[1] - 1, -1, -1):
            carry = torch.where(action_mask[:, t], rewards[:, t] + gamma * carry, carry)
            returns[:, t] = carry
    return torch.where(action_mask, returns, 0.0)
