"""OpenRLHF's remote reward endpoint: POST /reward/score.

app.include_router(create_openrlhf_router(env, dg, infra_failure_score="nan"))
... --reward.remote_url http://localhost:8000/reward/score --algo.dynamic_filtering_enable
"""

import asyncio
import math
from collections.abc import Callable
from typing import Any, Literal

from fastapi import APIRouter, Request, Response

from deepgym.integrations.body import BodyError, read_body
from deepgym.integrations.connection import CLIENT_LEFT, while_connected
from deepgym.integrations.grader import Graded, Grader, Gym
from deepgym.integrations.payload import ScoreRequest, response_json
from deepgym.integrations.prompts import strip_prompt
from deepgym.integrations.slots import Slots
from deepgym.models import Environment

DEADLINE_S = 150.0  # from the first byte to the answer; OpenRLHF gives up at 180 s
# 64,000,000 characters as aiohttp's client writes them: six bytes for each that is not ASCII. (A character beyond
# U+FFFF takes twelve, so a request full of those is refused at half that number.)
MAX_BODY_BYTES = 400_000_000

_MASKED_REWARDS = {"nan": math.nan, "zero": 0.0}


def create_openrlhf_router(
    env: Environment,
    dg: Gym,
    *,
    infra_failure_score: Literal["nan", "zero"] | None = None,
    max_parallel: int = 32,
    max_body_bytes: int = MAX_BODY_BYTES,
    observe: Callable[[Graded], None] = lambda graded: None,
    slots: Slots | None = None,
) -> APIRouter:
    """A router that grades samples of `env`.

    Args:
        infra_failure_score: the reward of a sample without a verdict. "nan": NaN, which makes OpenRLHF's dynamic
            filter drop the prompt's group; without that filter training would break. "zero": 0.0, as if the answer
            had failed. There is no default: the choice is the operator's.
        max_parallel: runs at once, first and second gradings together.
        max_body_bytes: longer bodies are refused.
        observe: called with each graded sample, for metrics.
        slots: places shared with other routers, instead of `max_parallel` own ones.

    Raises:
        ValueError: `infra_failure_score` is neither "nan" nor "zero", or `max_parallel` is below 1.
        TypeError: `max_parallel` is no whole number, or `env` no Environment.
    """
    if not isinstance(env, Environment):
        raise TypeError(f"env is {env!r}; give an Environment, as load_environment('coin_change') returns it")
    if not isinstance(infra_failure_score, str) or infra_failure_score not in _MASKED_REWARDS:
        raise ValueError(
            f"infra_failure_score is {infra_failure_score!r}; choose 'nan' (needs --algo.dynamic_filtering_enable, "
            "which drops the group of a sample without a verdict) or 'zero' (counts it as a failed answer)"
        )
    masked_reward = _MASKED_REWARDS[infra_failure_score]
    grader = Grader(env, dg, masked_reward, slots or Slots(max_parallel), observe)
    router = APIRouter(prefix="/reward", tags=["reward"])

    @router.post("/score", openapi_extra=_openapi(), response_class=Response)
    async def score(request: Request) -> Response:
        """Grade the responses; one reward per prompt."""
        deadline = asyncio.get_running_loop().time() + DEADLINE_S
        try:
            body = await read_body(request, ScoreRequest, max_body_bytes, DEADLINE_S)
        except BodyError as error:
            return error.response()
        graded = await while_connected(request, grader.grade(_responses(body), deadline))
        if graded is None:
            return Response(status_code=CLIENT_LEFT)
        answer = response_json(
            [sample.reward for sample in graded],
            [None if sample.error_type is None else str(sample.error_type) for sample in graded],
            _extra_logs(graded),
        )
        return Response(answer, media_type="application/json")

    return router


def _responses(body: ScoreRequest) -> list[str | None]:
    if body.outputs is not None:
        return list(body.outputs)
    return [strip_prompt(query, prompt) for query, prompt in zip(body.query or (), body.prompts, strict=True)]


def _extra_logs(graded: list[Graded]) -> dict[str, float]:
    """Rates over the request. Those about verdicts are left out where no sample has one."""
    if not graded:
        return {}
    judged = [sample.result for sample in graded if sample.result is not None]
    logs = {"verdict_rate": len(judged) / len(graded)}
    if judged:
        logs["pass_rate"] = sum(result.passed for result in judged) / len(judged)
        logs["case_pass_rate"] = sum(result.pass_rate if result.cases else 0.0 for result in judged) / len(judged)
    return logs


def _openapi() -> dict[str, Any]:
    """The body is read by hand, so its form is declared by hand."""
    schema = ScoreRequest.model_json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
