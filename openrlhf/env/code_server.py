"""A client of SandboxFusion-compatible servers: POST /run_code, at an address that is looked up at every call.

    {"code", "language": "python", "compile_timeout", "run_timeout", "request_id"}
    -> {"status": "Success" | "Failed" | "SandboxError", "run_result": {"status", "stdout", "stderr"}, "request_id"?}

`deepgym serve` is such a server too. A request_id that comes back must be the one that was sent: behind a proxy an
answer may belong to somebody else.
"""

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

import aiohttp

from openrlhf.config.env import EnvConfig
from openrlhf.env.code_result import CodeResult, finished
from openrlhf.env.code_runner import RunnerDown
from openrlhf.env.proxy import NoAddress, server_address

_SLACK_S = 30.0  # beyond the program's own times: for the queue and the network
_REFUSALS = frozenset({400, 413, 422})  # about this very program: another policy's would be run
_REFUSED = {"status": "Failed", "run_result": {"status": "Refused"}}


class ServerRunner:
    """A CodeRunner that asks a server."""

    def __init__(self, env: EnvConfig) -> None:
        self._env = env
        self._session: aiohttp.ClientSession | None = None

    async def run(self, code: str) -> CodeResult:
        request_id = uuid.uuid4().hex
        times = self._env.code
        body = {
            "code": code.encode("utf-8", "replace").decode(),
            "language": "python",
            "compile_timeout": times.compile_timeout,
            "run_timeout": times.run_timeout,
            "request_id": request_id,
        }
        url = self._url()
        try:
            async with asyncio.timeout(times.compile_timeout + times.run_timeout + _SLACK_S):
                answer = await self._post(url, body)
        except TimeoutError as error:
            raise RunnerDown(f"{url}: no answer in time") from error
        if not isinstance(answer, Mapping):
            raise RunnerDown(f"{url}: answered something else than an object")
        if answer.get("request_id", request_id) != request_id:
            raise RunnerDown(f"{url}: answered another request than the one that was sent")
        return _result(answer, url)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _url(self) -> str:
        try:
            address = server_address(self._env)
        except NoAddress as error:
            raise RunnerDown(str(error)) from error
        return f"{address}:{self._env.code.port}/run_code"

    async def _post(self, url: str, body: dict[str, Any]) -> Any:
        if self._session is None:
            # Neither aiohttp's 100 connections nor its 300 s: waiting for one would count as the program's time.
            connector, no_limit = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
            self._session = aiohttp.ClientSession(connector=connector, timeout=no_limit)
        try:
            async with self._session.post(url, json=body) as response:
                if response.status in _REFUSALS:
                    return _REFUSED
                if response.status != 200:
                    raise RunnerDown(f"{url}: status {response.status}")
                return await response.json(content_type=None)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise RunnerDown(f"{url}: {type(error).__name__}: {error}") from error


def _result(answer: Mapping[str, Any], url: str) -> CodeResult:
    run = answer.get("run_result")
    if answer.get("status") not in ("Success", "Failed") or not isinstance(run, Mapping):
        raise RunnerDown(f"{url}: status {answer.get('status')!r}: {answer.get('message')}")
    if run.get("status") == "Finished":
        stdout, stderr = (str(run.get(name) or "") for name in ("stdout", "stderr"))
        return finished(stdout, stderr, answer["status"] == "Success")
    return CodeResult(str(run.get("status")), error=True)
