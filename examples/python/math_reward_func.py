"""Reward for mathematics problems with a known answer: 1 if the last \\boxed{} of the response equals the label.

    python3 -m openrlhf.cli.train_ppo_ray --reward.remote_url examples/python/math_reward_func.py \
        --data.label_key answer ...

Needs math-verify (`pip install "openrlhf[math]"`). `openrlhf/env/math/` says exactly what counts as the answer and how
it is compared; comparison runs in processes with a time limit, so no answer of the model can hold up the training.
"""

import torch

from openrlhf.env.math.boxed import last_boxed, outside_thinking
from openrlhf.env.math.grade import grade_all
from openrlhf.env.math.pool import ComparePool

POOL = ComparePool()


def reward_func(queries: list[str], prompts: list[str], labels: list[str]) -> dict:
    """Grade n samples.

    Args:
        queries: prompt + response, special tokens kept.
        prompts: the prompts alone; a query that does not start with its prompt gets NaN, which means no verdict.
        labels: the answers. In a label with a box or with `####` only what is in the box or follows counts.

    Returns:
        rewards and scores: (n,) tensor of 1, 0 or NaN; extra_logs: per sample, whether a boxed answer was found.
    """
    found = [query.startswith(prompt) for query, prompt in zip(queries, prompts, strict=True)]
    responses = [query[len(prompt) :] for query, prompt in zip(queries, prompts, strict=True)]
    verdicts = grade_all(responses, [label if ok else "" for label, ok in zip(labels, found, strict=True)], POOL)
    rewards = torch.tensor(verdicts)
    boxed = [float(last_boxed(outside_thinking(response)) is not None) for response in responses]
    return {"rewards": rewards, "scores": rewards, "extra_logs": {"has_boxed_answer": boxed}}
