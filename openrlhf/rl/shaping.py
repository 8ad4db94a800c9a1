"""What happens to raw rewards before any advantage: length penalties -> clip -> running normalisation.

Each sample counts once, whatever the number of its segments. Group statistics and KL come after (`rl.advantages`).
Rewards of single turns are kept in the unit of their sample's reward, so that a turn keeps its share of it.
"""

from dataclasses import dataclass

import numpy as np

from openrlhf.config.reward import RewardConfig
from openrlhf.rl.penalties import overlong_penalty, stop_properly_penalty
from openrlhf.rl.running_normaliser import MIN_STD, RunningNormaliser
from openrlhf.types import Experience


@dataclass(frozen=True, slots=True)
class ShapedRewards:
    """What `shape_rewards` gives back."""

    rewards: np.ndarray  # (B,) float32, equal on all rows of a sample
    turn_rewards: np.ndarray | None  # (B, T) float32, where experience.turn_rewards has them; None as there
    metrics: dict[str, float]  # over samples


def shape_rewards(
    experience: Experience, reward: RewardConfig, response_limit: int, normaliser: RunningNormaliser | None
) -> ShapedRewards:
    """Shape the rewards of samples, and bring those of their turns to the same unit.

    experience.rewards and .turn_rewards are the raw ones and stay as they are. response_limit: the longest response
    there can be, rollout.max_new_tokens or data.max_len. normaliser: takes this batch in, then normalises it; None:
    none.
    Turn rewards are multiplied by clipped/unclipped reward of their sample where clipping brought it closer to 0, and
    divided by the running standard deviation. Penalties and the mean are no turn's: the last action pays for them
    (`rl.token_rewards`). Example: turns 8 and 8, clip range (-10, 10) -> reward 10, turns 5 and 5.
    Metrics (each only where its part is on): rollout/overlong_penalty and rollout/overlong_rate;
    rollout/stop_penalty_rate, samples that the stop-properly penalty changed; rollout/reward_clipped_rate;
    rollout/reward_running_mean and _std; always rollout/shaped_reward_mean and _std.
    Raises ValueError for penalties that make no sense, FloatingPointError for a reward that is not finite.
    """
    _, first, sample = np.unique(experience.sample_ids, return_index=True, return_inverse=True)
    rewards = experience.rewards[first].astype(np.float64)
    metrics: dict[str, float] = {}
    if reward.overlong_buffer_len is not None:
        lengths = np.bincount(sample, weights=experience.action_mask.sum(axis=1))
        penalty = overlong_penalty(lengths, response_limit, reward.overlong_buffer_len, reward.overlong_penalty_factor)
        rewards = rewards + penalty
        metrics["rollout/overlong_penalty"] = float(penalty.mean())
        metrics["rollout/overlong_rate"] = float((penalty < 0).mean())
    if reward.stop_properly_penalty_coef is not None:
        stopped = stop_properly_penalty(rewards, experience.truncated[first], reward.stop_properly_penalty_coef)
        metrics["rollout/stop_penalty_rate"] = float((stopped != rewards).mean())
        rewards = stopped
    clipped = clip_rewards(rewards, reward.clip_range)
    metrics["rollout/reward_clipped_rate"] = float((clipped != rewards).mean())
    turn_scale = _clip_scale(rewards, clipped)
    rewards = clipped
    if normaliser is not None:
        normaliser.update(rewards)
        rewards = normaliser.normalise(rewards)
        # Rewards that do not differ give no unit: turns divided by the floor of the deviation would be blown up.
        turn_scale = turn_scale / normaliser.std if normaliser.std > MIN_STD else turn_scale
        metrics |= {"rollout/reward_running_mean": normaliser.mean, "rollout/reward_running_std": normaliser.std}
    metrics |= {"rollout/shaped_reward_mean": float(rewards.mean()), "rollout/shaped_reward_std": float(rewards.std())}
    turns = experience.turn_rewards
    scaled = None if turns is None else (turns * turn_scale[sample, None]).astype(np.float32)
    return ShapedRewards(rewards[sample].astype(np.float32), scaled, metrics)


def clip_rewards(rewards: np.ndarray, clip_range: tuple[float, float]) -> np.ndarray:
    """Clamp raw rewards (B,) to [low, high], before any statistics are taken from them. NaN stays NaN."""
    low, high = clip_range
    return np.clip(rewards, low, high)


def _clip_scale(rewards: np.ndarray, clipped: np.ndarray) -> np.ndarray:
    """Return (B,) float64: clipped/rewards where clipping brought a reward closer to 0, else 1.

    A range without 0 in it moves other rewards away from 0, or over it; in proportion to them a turn's reward would
    grow without bound or change its sign.
    """
    shrunk = (np.abs(clipped) < np.abs(rewards)) & (clipped * rewards >= 0)
    return np.where(shrunk, clipped / np.where(shrunk, rewards, 1.0), 1.0)
