"""The quickstart's reward: 1 if the reply is exactly the right JSON object and then ends, else 0."""

import json

import torch

REPLY_START = "<|im_start|>assistant\n"
END = "<|im_end|>"


def grade(reply: str, label: str) -> float:
    """`reply` still holds its end token, so an answer that ran out of tokens, or that goes on talking, gets 0."""
    if not reply.endswith(END):
        return 0.0
    try:
        answer = json.loads(reply.removesuffix(END))
    except ValueError:
        return 0.0
    # A JSON true equals 1 in Python, and 34.0 equals 34; neither is what was asked for.
    expected = json.loads(label)
    same_types = isinstance(answer, dict) and {k: type(v) for k, v in answer.items()} == {"name": str, "age": int}
    return float(same_types and answer == expected)


def reward_func(queries: list[str], prompts: list[str], labels: list[str]) -> dict:
    """`queries` are prompt and reply with special tokens kept; `labels` are the JSON objects asked for."""
    rewards = torch.tensor(
        [grade(query.rpartition(REPLY_START)[2], label) for query, label in zip(queries, labels, strict=True)]
    )
    return {"rewards": rewards, "scores": rewards}
