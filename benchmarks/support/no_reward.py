"""A reward that costs nothing, so that a rollout's time is its generation and what our layers add."""


def reward_func(queries: list[str], prompts: list[str], labels: list[str]) -> dict[str, list[float]]:
    return {"rewards": [0.0] * len(queries), "scores": [0.0] * len(queries)}
