"""Reward of the vision example: 1 where the response is the label, and nothing but the label."""

import torch

END = "</s>"


def reward_func(queries: list[str], prompts: list[str], labels: list[str]) -> dict:
    """`queries` are prompts with responses; an image is one placeholder in both."""
    responses = [query.removesuffix(END).split(":")[-1].strip() for query in queries]
    rewards = torch.tensor([float(found == label) for found, label in zip(responses, labels, strict=True)])
    return {"rewards": rewards, "scores": rewards}
