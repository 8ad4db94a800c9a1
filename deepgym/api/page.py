"""The page for people: pick an environment, paste an answer, read the verdict case by case."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from pydantic import BaseModel, ConfigDict

from deepgym.integrations.body import BodyError, read_body
from deepgym.integrations.connection import CLIENT_LEFT, while_connected
from deepgym.integrations.grader import Graded, Grader
from deepgym.integrations.payload import Text
from deepgym.models import CaseOutcome, Environment

STATIC = Path(__file__).parent / "static"
FILES = {"/": "index.html", "/page.js": "page.js", "/page.css": "page.css"}
DEADLINE_S = 150.0
MAX_BODY_BYTES = 32_000_000

# The page loads nothing from elsewhere and runs no inline script, whatever a verdict says.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


class RunRequest(BaseModel):
    """`answer`: a response with a fenced code block, or bare code."""

    model_config = ConfigDict(extra="ignore")

    environment: Text
    answer: Text


def create_page_router(environments: Sequence[Environment], graders: Mapping[str, Grader]) -> APIRouter:
    """The page's files, GET /api/environments and POST /api/run."""
    router = APIRouter(tags=["page"])
    for path, name in FILES.items():
        router.add_api_route(path, _file(STATIC / name), include_in_schema=False)

    @router.get("/api/environments")
    async def listed() -> list[dict[str, Any]]:
        """What there is, by name."""
        return [_described(env) for env in environments]

    @router.post("/api/run", openapi_extra=_openapi())
    async def run(request: Request) -> Response:
        """Grade one answer; the verdict with every case."""
        deadline = asyncio.get_running_loop().time() + DEADLINE_S
        try:
            body = await read_body(request, RunRequest, MAX_BODY_BYTES, DEADLINE_S)
        except BodyError as error:
            return error.response()
        grader = graders.get(body.environment)
        if grader is None:
            return JSONResponse({"detail": f"no such environment; there are: {', '.join(graders)}"}, status_code=404)
        graded = await while_connected(request, grader.grade([body.answer], deadline))
        return Response(status_code=CLIENT_LEFT) if graded is None else JSONResponse(_verdict(graded[0]))

    return router


def _file(path: Path) -> Any:
    async def send() -> FileResponse:
        return FileResponse(path, headers=_HEADERS)

    return send


def _openapi() -> dict[str, Any]:
    schema = RunRequest.model_json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _described(env: Environment) -> dict[str, Any]:
    return {
        "name": env.name,
        "title": env.title,
        "task": env.task,
        "kind": env.kind,
        "language": env.language,
        "difficulty": env.difficulty,
        "domain": env.domain,
        "tags": list(env.tags),
    }


def _verdict(graded: Graded) -> dict[str, Any]:
    """JSON without NaN: `score` is null where there is no verdict."""
    result = graded.result
    if result is None:
        return {"has_verdict": False, "score": None, "error_type": graded.error_type, "cases": []}
    return {
        "has_verdict": True,
        "score": result.score,
        "passed": result.passed,
        "error_type": result.error_type,
        "error_message": result.error_message,
        "wall_ms": result.wall_ms,
        "cpu_ms": result.cpu_ms,
        "peak_memory_bytes": result.peak_memory_bytes,
        "notes": list(result.notes),
        "cases": [_case(case) for case in result.cases],
    }


def _case(case: CaseOutcome) -> dict[str, Any]:
    return {
        "name": case.name,
        "passed": case.passed,
        "score": case.score,
        "group": case.group,
        "hidden": case.hidden,
        "error_type": case.error_type,
        "detail": case.detail,
        "cpu_ms": case.cpu_ms,
    }
