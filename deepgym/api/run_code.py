"""POST /run_code: runs a piece of code and returns what it printed, in the form of SandboxFusion's API.

For tools that a model calls while it answers. The fields are those that SandboxFusion documents; python and bash are
served, neither has a compile step, so `compile_timeout` has no effect and `compile_result` is null.
"""

import asyncio
import base64
import binascii
import logging
from typing import Annotated, Any, Literal, Protocol

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from deepgym.integrations.body import BodyError, read_body
from deepgym.integrations.connection import CLIENT_LEFT, while_connected
from deepgym.integrations.payload import Text
from deepgym.integrations.slots import Slots
from deepgym.sandbox.base import MIB, Exec, Job, JobResult, Limits, StepOutcome, check_relative_path

logger = logging.getLogger(__name__)

DEADLINE_S = 150.0
MAX_BODY_BYTES = 64 * MIB
MAX_FILES = 64

_PROGRAMS = {"python": ("main.py", "python3"), "bash": ("main.sh", "bash")}


class JobRunner(Protocol):
    """The part of DeepGym that runs bare jobs."""

    async def arun_job(self, job: Job) -> JobResult: ...


def _plain_path(path: str) -> str:
    try:
        return check_relative_path(path)
    except ValueError:
        raise PydanticCustomError("path", "not a plain relative path inside the working directory") from None


Path = Annotated[str, AfterValidator(_plain_path)]


class RunCodeRequest(BaseModel):
    """`files`: name to base64 content; null puts no file there. `memory_limit_MB`: -1 leaves the default."""

    model_config = ConfigDict(extra="ignore")

    code: Text
    language: Literal["python", "bash"]
    compile_timeout: float | None = None
    run_timeout: Annotated[float, Field(gt=0, le=120)] = 10.0
    memory_limit_MB: Literal[-1] | Annotated[int, Field(ge=16, le=2048)] = -1
    stdin: Text | None = None
    files: Annotated[dict[Path, str | None], Field(max_length=MAX_FILES)] = {}
    fetch_files: Annotated[list[Path], Field(max_length=MAX_FILES)] = []

    def job(self) -> Job:
        """Raises BodyError for a file that is not base64."""
        name, program = _PROGRAMS[self.language]
        try:
            given = {path: content for path, content in self.files.items() if content is not None}
            files = {path: base64.b64decode(content, validate=True) for path, content in given.items()}
        except (binascii.Error, ValueError):
            problem = {"type": "base64", "loc": ["body", "files"], "msg": "a file's content is not base64"}
            raise BodyError([problem]) from None
        files[name] = self.code.encode()
        memory = Limits().memory_bytes if self.memory_limit_MB == -1 else self.memory_limit_MB * MIB
        limits = Limits(cpu_seconds=self.run_timeout, wall_seconds=self.run_timeout, memory_bytes=memory)
        stdin = (self.stdin or "").encode()
        return Job(files, (Exec((program, name), stdin=stdin, collect=tuple(self.fetch_files)),), limits)


def create_run_code_router(runner: JobRunner, slots: Slots) -> APIRouter:
    """A router with POST /run_code; each run takes one of the slots."""
    router = APIRouter(tags=["tools"])

    async def run(job: Job) -> dict[str, Any]:
        try:
            async with asyncio.timeout(DEADLINE_S), slots:
                result = await runner.arun_job(job)
        except Exception as error:  # whatever it is, the client gets a status it knows
            logger.warning("run_code: %s: %s", type(error).__name__, error)
            return _answer("SandboxError", f"no result: {type(error).__name__}", None)
        return _finished(result.outcomes[0])

    openapi = {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": RunCodeRequest.model_json_schema()}},
        }
    }

    @router.post("/run_code", openapi_extra=openapi)
    async def run_code(request: Request) -> Response:
        """Run a program; 200 whatever it does."""
        try:
            job = (await read_body(request, RunCodeRequest, MAX_BODY_BYTES, DEADLINE_S)).job()
        except BodyError as error:
            return error.response()
        answer = await while_connected(request, run(job))
        return Response(status_code=CLIENT_LEFT) if answer is None else JSONResponse(answer)

    return router


def _finished(outcome: StepOutcome) -> dict[str, Any]:
    """`Finished`: ended by itself or by a signal. `Error`: broke a limit other than time; `message` says which."""
    if outcome.status == "timeout":
        status = "TimeLimitExceeded"
    elif outcome.status in ("ok", "error", "signal"):
        status = "Finished"
    else:
        status = "Error"
    run = {
        "status": status,
        "execution_time": outcome.wall_ms / 1000,
        "return_code": outcome.exit_code,
        "stdout": outcome.stdout.decode("utf-8", "replace"),
        "stderr": outcome.stderr.decode("utf-8", "replace"),
    }
    files = {path: base64.b64encode(content).decode() for path, content in outcome.files.items()}
    return _answer("Success" if outcome.status == "ok" else "Failed", outcome.error, run, files)


def _answer(
    status: str, message: str, run: dict[str, Any] | None, files: dict[str, str] | None = None
) -> dict[str, Any]:
    return {
        "status": status,
        "message": message,
        "compile_result": None,
        "run_result": run,
        "executor_pod_name": None,
        "files": files or {},
    }
