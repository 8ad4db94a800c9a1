"""A reward function for verl.

    # reward.py; verl: custom_reward_function.path=reward.py custom_reward_function.name=compute_score
    compute_score = create_verl_reward(load_environment("coin_change"), DeepGym(mode="auto"))

verl calls it once per response, from worker threads. It has no value for "no verdict": a number would be trained on.
So the function raises, and verl drops or masks the sample, or stops where its version does neither.
"""

from collections.abc import Callable
from typing import Any, Protocol

from deepgym.exceptions import DeepGymError, error_type_of
from deepgym.extract import extract_code
from deepgym.models import Environment, ErrorType, RunResult


class SyncGym(Protocol):
    """The part of DeepGym that grades one answer, from any thread."""

    def run(self, env: Environment, answer: str) -> RunResult: ...


class NoVerdictError(DeepGymError):
    """The sample has no verdict; `error_type` says why. It must not be trained on."""

    def __init__(self, environment: str, error_type: ErrorType) -> None:
        super().__init__(environment, error_type)  # as they came, so that the error can be pickled
        self.error_type = error_type

    def __str__(self) -> str:
        environment, error_type = self.args
        return f"{environment}: a sample has no verdict ({error_type})"


def create_verl_reward(env: Environment, dg: SyncGym) -> Callable[..., dict[str, float]]:
    """A function with verl's signature. `score` is the reward; the others become verl's extra reward information."""

    def compute_score(
        data_source: str, solution_str: str, ground_truth: Any = None, extra_info: Any = None, **_: Any
    ) -> dict[str, float]:
        """Raises NoVerdictError."""
        code = extract_code(solution_str)
        try:
            result = dg.run(env, code)
        except Exception as error:  # a provider's library may raise anything; none of it is a score
            raise NoVerdictError(env.name, error_type_of(error)) from error
        if not result.has_verdict:
            raise NoVerdictError(env.name, result.error_type or ErrorType.UNKNOWN_ERROR)
        return {
            "score": result.score,
            "passed": float(result.passed),
            "case_pass_rate": result.pass_rate if result.cases else 0.0,
        }

    return compute_score
