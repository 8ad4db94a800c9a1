"""The reward of the dates example: 1 if the first line of the reply is the ISO date, else 0."""

import torch

END = "<|im_end|>"


def grade(reply: str, label: str) -> float:
    return float(reply.partition("\n")[0].removesuffix(END).strip() == label)


def reward_func(queries: list[str], prompts: list[str], labels: list[str]) -> dict:
    """`queries` are prompt and reply with special tokens kept; `labels` are the ISO dates."""
    rewards = torch.tensor(
        [grade(q.removeprefix(prompt), label) for q, prompt, label in zip(queries, prompts, labels, strict=True)]
    )
    return {"rewards": rewards, "scores": rewards}
