"""Small rollouts and micro-batches for the tests of `rl`."""

from collections.abc import Sequence

import numpy as np

from openrlhf.types import Experience, Prompt, RewardOutcome, Rollout, RolloutGroup, Segment, Turn

UNGRADED = RewardOutcome.ungraded("grader down")


def segment(
    token_ids: Sequence[int],
    action_mask: Sequence[int],
    loss_mask: Sequence[int] | None = None,
    logprobs: Sequence[float] | None = None,
    turns: tuple[Turn, ...] = (),
) -> Segment:
    actions = np.array(action_mask, dtype=bool)
    given = np.full(len(actions), -1.0) if logprobs is None else np.array(logprobs)
    return Segment(
        token_ids=np.array(token_ids, dtype=np.int64),
        action_mask=actions,
        loss_mask=actions if loss_mask is None else np.array(loss_mask, dtype=bool),
        logprobs=np.where(actions, given, 0.0).astype(np.float32),
        policy_versions=np.where(actions, 0, -1).astype(np.int32),
        turns=turns,
    )


def outcome(reward: float | None, score: float | None = None) -> RewardOutcome:
    """A graded outcome, or an ungraded one for None. The score is the reward unless given."""
    return UNGRADED if reward is None else RewardOutcome(reward, reward if score is None else score)


def rollout(group_id: str, number: int, reward: float | None, *segments: Segment, truncated: bool = False) -> Rollout:
    return Rollout(
        group_id=group_id,
        sample_id=f"{group_id}/{number}",
        prompt=Prompt(0, "p"),
        segments=segments or (segment([5, 6, 7], [0, 1, 1]),),
        outcome=outcome(reward),
        truncated=truncated,
    )


def group(group_id: str, rewards: Sequence[float | None], *segments: Segment) -> RolloutGroup:
    """One rollout per reward; rollout i has the i-th segment, or a default one of 2 actions."""
    rollouts = [rollout(group_id, i, reward, *([segments[i]] if segments else [])) for i, reward in enumerate(rewards)]
    return RolloutGroup(group_id, tuple(rollouts))


def random_segment(rng: np.random.Generator, vocab: int = 11, longest: int = 12) -> Segment:
    """A prompt of 1 to 3 tokens, then actions with environment tokens between; some actions are not trained on."""
    length, prompt = int(rng.integers(4, longest + 1)), int(rng.integers(1, 4))
    actions = rng.random(length) < 0.75
    actions[:prompt] = False
    loss = actions & (rng.random(length) < 0.85)
    return segment(rng.integers(0, vocab, length), actions, loss, -3 * rng.random(length))


def random_groups(rng: np.random.Generator, num_groups: int = 4, vocab: int = 11) -> list[RolloutGroup]:
    """Groups of 2 to 4 samples; every sixth sample or so has two segments; one segment is fully loss-masked."""
    groups = []
    for g in range(num_groups):
        rollouts = []
        for i in range(int(rng.integers(2, 5))):
            parts = [random_segment(rng, vocab) for _ in range(1 + int(rng.random() < 0.17))]
            rollouts.append(rollout(f"g{g}", i, float(rng.normal()), *parts, truncated=bool(rng.random() < 0.3)))
        groups.append(RolloutGroup(f"g{g}", tuple(rollouts)))
    silent = segment([1, 2, 3, 4], [0, 0, 1, 1], [0, 0, 0, 0])
    groups.append(RolloutGroup("last", (rollout("last", 0, 1.0, silent), rollout("last", 1, 0.0))))
    return groups


def experience(
    action_mask: Sequence[Sequence[int]], rewards: Sequence[float], group_ids: Sequence[int] | None = None
) -> Experience:
    """A batch whose loss mask is the action mask, token ids 1, 2, 3, ... and no padding."""
    mask = np.array(action_mask, dtype=bool)
    rows, width = mask.shape
    return Experience(
        sequences=np.tile(np.arange(1, width + 1), (rows, 1)),
        attention_mask=np.ones_like(mask),
        action_mask=mask,
        loss_mask=mask.copy(),
        policy_versions=np.zeros(mask.shape, dtype=np.int32),
        rollout_logprobs=np.zeros(mask.shape, dtype=np.float32),
        rewards=np.array(rewards, dtype=np.float32),
        scores=np.array(rewards, dtype=np.float32),
        group_ids=np.array(range(rows) if group_ids is None else group_ids, dtype=np.int64),
        sample_ids=np.arange(rows),
        truncated=np.zeros(rows, dtype=bool),
    )
