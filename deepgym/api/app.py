"""The service: every part of it on one set of slots.

POST /reward/score                       OpenRLHF's reward endpoint, when one environment is served
POST /environments/NAME/reward/score     the same, of each environment
POST /run_code                           runs a program, as SandboxFusion does
GET  /                                   the page;  GET /api/environments, POST /api/run behind it
GET  /health, GET /metrics               for machines
"""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from fastapi import FastAPI, Response

from deepgym.api.auth import ApiKeyGate
from deepgym.api.metrics import CONTENT_TYPE, CountRequests, Metrics
from deepgym.api.page import create_page_router
from deepgym.api.run_code import JobRunner, create_run_code_router
from deepgym.integrations.grader import Grader, Gym
from deepgym.integrations.openrlhf import create_openrlhf_router
from deepgym.integrations.slots import Slots
from deepgym.models import Environment


class ServedGym(Gym, JobRunner, Protocol):
    """DeepGym, as the service needs it."""

    @property
    def sandbox_name(self) -> str: ...

    @property
    def isolated(self) -> bool: ...


def create_app(
    dg: ServedGym,
    environments: Sequence[Environment],
    *,
    infra_failure_score: Literal["nan", "zero"],
    max_parallel: int = 32,
    api_key: str | None = None,
) -> FastAPI:
    """The service as an ASGI application.

    Args:
        environments: those to serve; at least one.
        infra_failure_score: see `create_openrlhf_router`.
        max_parallel: runs at once, over all routes.
        api_key: what clients must send, except for /health; None: nothing.

    Raises:
        ValueError: no environment, two of one name, or an option that the reward router refuses.
    """
    names = [env.name for env in environments]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"give at least one environment, each once; got {names}")
    slots = Slots(max_parallel)
    metrics = Metrics(slots)
    app = FastAPI(title="deepgym", docs_url=None, redoc_url=None)
    for env in environments:
        router = create_openrlhf_router(
            env, dg, infra_failure_score=infra_failure_score, observe=metrics.observer(env.name), slots=slots
        )
        app.include_router(router, prefix=f"/environments/{env.name}")
        if len(names) == 1:
            app.include_router(router)
    app.include_router(create_run_code_router(dg, slots))
    graders = {env.name: Grader(env, dg, 0.0, slots, metrics.observer(env.name)) for env in environments}
    app.include_router(create_page_router(environments, graders))

    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Open without a key."""
        return {"status": "ok", "sandbox": dg.sandbox_name, "isolated": dg.isolated, "environments": names}

    @app.get("/metrics")
    async def prometheus() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    if api_key is not None:
        app.add_middleware(ApiKeyGate, key=api_key)
    app.add_middleware(CountRequests, metrics=metrics)  # added last, so it sees what the gate refuses
    return app
