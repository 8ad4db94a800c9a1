"""What happens to raw rewards before any advantage: length penalties -> clip -> running normalisation.

Each sample counts once, whatever the number of its segments. Group statistics and KL come after (`rl.advantages`).
"""

import numpy as np

from openrlhf.config.reward import RewardConfig
from openrlhf.rl.penalties import overlong_penalty, stop_properly_penalty
from openrlhf.rl.running_normaliser import RunningNormaliser
from openrlhf.types import Experience


def shape_rewards(
    experience: Experience, reward: RewardConfig, response_limit: int, normaliser: RunningNormaliser | None
) -> tuple[np.ndarray, dict[str, float]]:
    """Return the shaped rewards (B,) float32, equal on all rows of a sample, and metrics over samples.

    experience.rewards are the raw ones and stay as they are. response_limit: the longest response there can be,
    rollout.max_new_tokens or data.max_len. normaliser: takes this batch in, then normalises it; None: none.
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
    rewards = clipped
    if normaliser is not None:
        normaliser.update(rewards)
        rewards = normaliser.normalise(rewards)
        metrics |= {"rollout/reward_running_mean": normaliser.mean, "rollout/reward_running_std": normaliser.std}
    metrics |= {"rollout/shaped_reward_mean": float(rewards.mean()), "rollout/shaped_reward_std": float(rewards.std())}
    return rewards[sample].astype(np.float32), metrics


def clip_rewards(rewards: np.ndarray, clip_range: tuple[float, float]) -> np.ndarray:
    """Clamp raw rewards (B,) to [low, high], before any statistics are taken from them. NaN stays NaN."""
    low, high = clip_range
    return np.clip(rewards, low, high)
