"""The client of SandboxFusion-compatible servers, against a server of the test's own process."""

import asyncio
import inspect
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from openrlhf.config.env import EnvConfig
from openrlhf.env.code_result import CodeResult
from openrlhf.env.code_runner import RunnerDown
from openrlhf.env.code_server import ServerRunner

Answer = Callable[[dict[str, Any]], Any]


class Servers:
    """Servers of one test; `asked` holds every body."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self._runners: list[web.AppRunner] = []

    async def start(self, answer: Answer) -> int:
        async def handle(request: web.Request) -> web.Response:
            body = await request.json()
            self.asked.append(body)
            given = answer(body)
            if inspect.isawaitable(given):
                given = await given
            return given if isinstance(given, web.Response) else web.json_response(given)

        app = web.Application()
        app.router.add_post("/run_code", handle)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._runners.append(runner)
        return int(runner.addresses[0][1])

    async def stop(self) -> None:
        for runner in self._runners:
            await runner.cleanup()


@pytest.fixture
async def servers():
    started = Servers()
    yield started
    await started.stop()


def ran(status: str, run_status: str, stdout: str = "", stderr: str = "") -> dict[str, Any]:
    return {"status": status, "message": "", "run_result": {"status": run_status, "stdout": stdout, "stderr": stderr}}


async def ask(port: int, code: str = "print(1)", **settings: Any) -> CodeResult:
    env = EnvConfig.model_validate({"server": "http://127.0.0.1", "code": {"port": port}} | settings)
    runner = ServerRunner(env)
    try:
        return await runner.run(code)
    finally:
        await runner.close()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ran("Success", "Finished", stdout="42\n"), CodeResult("42", error=False)),
        (ran("Failed", "Finished", stderr='  File "x.py", line 1\nE: no\n'), CodeResult("  line 1\nE: no", error=True)),
        (ran("Failed", "TimeLimitExceeded", stdout="half"), CodeResult("TimeLimitExceeded", error=True)),
        (ran("Success", "Finished") | {"run_result": {"status": "Finished", "stdout": None}}, CodeResult("", False)),
    ],
)
async def test_what_a_program_did_is_the_result(servers, answer, expected):
    assert await ask(await servers.start(lambda body: answer)) == expected


async def test_the_request_has_the_documented_fields(servers):
    port = await servers.start(lambda body: ran("Success", "Finished") | {"request_id": body["request_id"]})
    await ask(port, "print('é')")
    (body,) = servers.asked
    assert body.pop("request_id")
    assert body == {"code": "print('é')", "language": "python", "compile_timeout": 10.0, "run_timeout": 20.0}


@pytest.mark.parametrize(
    "answer",
    [
        {"status": "SandboxError", "message": "no result", "run_result": None},
        {"status": "Success", "run_result": None},
        ran("Success", "Finished") | {"request_id": "somebody else's"},
        ["no object"],
        web.Response(status=500),
        web.Response(text="<html>"),
    ],
    ids=["sandbox", "no result", "other request", "list", "500", "html"],
)
async def test_an_answer_that_is_none_is_no_result(servers, answer):
    port = await servers.start(lambda body: answer)
    with pytest.raises(RunnerDown, match="run_code"):
        await ask(port)


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_program_that_the_server_refuses_is_the_policys_fault(servers, status):
    port = await servers.start(lambda body: web.Response(status=status))
    assert await ask(port) == CodeResult("Refused", error=True)


async def test_as_many_programs_at_once_as_the_tool_lets_through(servers):
    """aiohttp by itself would open 100 connections and let the others wait."""
    everybody, arrived = asyncio.Event(), 0

    async def answer() -> dict[str, Any]:
        nonlocal arrived
        arrived += 1
        if arrived == 110:
            everybody.set()
        await asyncio.wait_for(everybody.wait(), 20)
        return ran("Success", "Finished", stdout="1")

    port = await servers.start(lambda body: answer())
    runner = ServerRunner(EnvConfig.model_validate({"server": "http://127.0.0.1", "code": {"port": port}}))
    results = await asyncio.gather(*(runner.run("print(1)") for _ in range(110)))
    assert {result.text for result in results} == {"1"}
    await runner.close()


async def test_nobody_listens():
    with pytest.raises(RunnerDown, match=r"127\.0\.0\.1:1/run_code"):
        await ask(1)


async def test_the_proxy_may_move_between_two_calls(servers, tmp_path):
    """NGINX_IP_FILE: the first line is read anew at every call; a file that is gone for a moment is no crash."""
    port = await servers.start(lambda body: ran("Success", "Finished", stdout=json.dumps(body["code"])))
    file = tmp_path / "ip.txt"
    runner = ServerRunner(EnvConfig.model_validate({"proxy_file": str(file), "code": {"port": port}}))
    with pytest.raises(RunnerDown, match=r"--env\.proxy_file"):
        await runner.run("1")
    file.write_text("http://127.0.0.1\nold: http://10.0.0.1\n")
    assert (await runner.run("1")).text == '"1"'
    file.write_text("http://127.0.0.2:1\n")  # a wrong address is not remembered either
    with pytest.raises(RunnerDown):
        await runner.run("1")
    file.write_text("127.0.0.1\n")
    assert (await runner.run("2")).text == '"2"'
    await runner.close()
