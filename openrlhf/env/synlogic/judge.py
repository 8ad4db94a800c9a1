"""Checks answers to puzzles with reasoning-gym, in a fork of `fork_server.py`: the standard library and reasoning-gym.

{"generator": str, "answer": str, "entry": {"question", "answer", "metadata"}}  ->  the score, 0 to 1, as text

In a fork because some checks evaluate the answer with sympy, which runs what it reads.
"""

from typing import Any


def warm_up() -> None:
    try:
        import reasoning_gym  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{error}; install reasoning-gym (pip install 'openrlhf[puzzles]')") from error


def judge(request: dict[str, Any]) -> str:
    from reasoning_gym import get_score_answer_fn

    return str(float(get_score_answer_fn(request["generator"])(request["answer"], request["entry"])))
