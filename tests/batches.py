"""Random batches of rollouts for tests of training; integers are drawn from the tiny model's vocabulary."""

from collections.abc import Sequence

import numpy as np

from openrlhf.rl.packing import pack, step_totals
from openrlhf.types import Experience, MicroBatch

PROMPT_TOKENS = 3


def random_experience(lengths: Sequence[int], seed: int = 0, prompts: Sequence[int] | None = None) -> Experience:
    """One row per length: 3 prompt tokens, then actions; each row's 5th token is an environment's, row 0's last
    action is loss-masked. Old and reference logprobs are near the engine's, advantages standard normal. `prompts`
    numbers the prompt of each row; None: each row has its own.
    """
    rng = np.random.default_rng(seed)
    rows, width = len(lengths), max(lengths)
    attention_mask = np.arange(width) < np.asarray(lengths)[:, None]
    action_mask = attention_mask & (np.arange(width) >= PROMPT_TOKENS) & (np.arange(width) != 4)
    loss_mask = action_mask.copy()
    loss_mask[0, lengths[0] - 1] = False

    def stream(center: float, spread: float) -> np.ndarray:
        return np.where(action_mask, rng.normal(center, spread, (rows, width)), 0).astype(np.float32)

    sequences = np.where(attention_mask, rng.integers(3, 98, (rows, width)), 0)
    if prompts is not None:
        sequences[:, :PROMPT_TOKENS] = rng.integers(3, 98, (max(prompts) + 1, PROMPT_TOKENS))[list(prompts)]
    rollout_logprobs = stream(-4.0, 1.0)
    return Experience(
        sequences=sequences,
        attention_mask=attention_mask,
        action_mask=action_mask,
        loss_mask=loss_mask,
        policy_versions=np.where(action_mask, 0, -1).astype(np.int32),
        rollout_logprobs=rollout_logprobs,
        rewards=rng.normal(size=rows).astype(np.float32),
        scores=np.zeros(rows, dtype=np.float32),
        group_ids=np.arange(rows),
        sample_ids=np.arange(rows),
        truncated=np.zeros(rows, dtype=bool),
        ref_logprobs=rollout_logprobs + stream(0.0, 0.3),
        advantages=stream(0.0, 1.0),
    )


def micro_batches(experience: Experience, cuts: Sequence[Sequence[int]]) -> list[MicroBatch]:
    """Pack one optimiser step that trains every row named in `cuts`, a list of rows per micro-batch."""
    totals = step_totals(experience, [row for rows in cuts for row in rows])
    return [pack(experience, rows, totals) for rows in cuts]
