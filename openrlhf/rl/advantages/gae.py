"""Generalised advantage estimation (Schulman et al. 2016), over the tokens that the policy sampled."""

import torch


def gae(
    token_rewards: torch.Tensor, values: torch.Tensor, action_mask: torch.Tensor, gamma: float, lambd: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (advantages, returns), both (B, T) float64, 0 off the action mask.

        delta_t = r_t + gamma V_next - V_t        A_t = delta_t + gamma lambda A_next        R_t = A_t + V_t

    token_rewards, values, action_mask (B, T); V_t is the value of the state in which token t was chosen. `next` is the
    next ACTION token, and after the last one V and A are 0. Tokens of the environment between two turns are no steps:
    V_next and A_next pass over them unchanged, and what stands on them is never read, NaN included.
    Example: rewards [9, 0, 9, 1], values [9, 0.5, 9, 0.25], action mask [0, 1, 0, 1], gamma 1, lambda 0.5
    -> advantages [0, -0.25 + 0.5 * 0.75, 0, 0.75], returns [0, 0.625, 0, 1].
    """
    rewards = torch.where(action_mask, token_rewards.double(), 0.0)
    values = torch.where(action_mask, values.double(), 0.0)
    advantages = torch.zeros_like(rewards)
    next_value = rewards.new_zeros(len(rewards))
    carry = rewards.new_zeros(len(rewards))
    for t in range(rewards.shape[1] - 1, -1, -1):
        acts = action_mask[:, t]
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        carry = torch.where(acts, delta + gamma * lambd * carry, carry)
        next_value = torch.where(acts, values[:, t], next_value)
        advantages[:, t] = carry
    advantages = torch.where(action_mask, advantages, 0.0)
    return advantages, advantages + values
