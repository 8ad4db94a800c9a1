"""Code blocks in deepgym's real sandbox, inside this process and behind deepgym's own server."""

import asyncio

import pytest
from fastapi import FastAPI

from deepgym.api.run_code import create_run_code_router
from deepgym.core import DeepGym
from deepgym.integrations.slots import Slots
from openrlhf.config.env import EnvConfig
from openrlhf.env.code_result import CodeResult
from openrlhf.env.code_runner import RunnerDown, SandboxRunner
from openrlhf.env.code_server import ServerRunner
from openrlhf.env.code_tool import CodeTool
from openrlhf.env.math_tir.executor import MathTirExecutor
from openrlhf.types import SamplingParams
from tests.deepgym_fakes import served
from tests.fakes import FakeTokenizer, ScriptedEngine, completion

# program -> what a policy sees of it
PROGRAMS = {
    "print(6 * 7)": CodeResult("42", error=False),
    "x = 1": CodeResult("", error=False),
    "print('é', '\\n')": CodeResult("é ", error=False),
    "print(1\n": CodeResult("  line 1\n    print(1\nSyntaxError: '(' was never closed", error=True),
    "print('half')\n1 / 0": CodeResult(
        "Traceback (most recent call last):\n  line 2, in <module>\n    1 / 0\nZeroDivisionError: division by zero",
        error=True,
    ),
    "import sys\nsys.exit(3)": CodeResult("", error=True),
}
REFUSED = "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:8000', timeout=2)"


async def see(runner: SandboxRunner | ServerRunner) -> None:
    try:
        shown = await asyncio.gather(*(runner.run(program) for program in PROGRAMS))
        assert dict(zip(PROGRAMS, shown, strict=True)) == PROGRAMS
        refused = await runner.run(REFUSED)
        assert refused.error
        assert "urlopen error" in refused.text  # there is no network, and no path of a file in what is shown
        assert "File " not in refused.text
    finally:
        await runner.close()


async def test_programs_in_this_process():
    await see(SandboxRunner("local", slots=2, run_timeout=10))


async def test_programs_at_deepgyms_server():
    with DeepGym("local", max_parallel=2) as gym:
        app = FastAPI()
        app.include_router(create_run_code_router(gym, Slots(2)))
        async with served(app) as address:
            server, _, port = address.rpartition(":")
            await see(ServerRunner(EnvConfig.model_validate({"server": server, "code": {"port": int(port)}})))


@pytest.mark.parametrize(
    ("program", "word"),
    [("while True: pass", "TimeLimitExceeded"), ("x = bytearray(1 << 30)", "MemoryError")],
)
async def test_limits(program, word):
    runner = SandboxRunner("local", slots=1, run_timeout=1)
    try:
        result = await run_with_a_core(runner, program)
    finally:
        await runner.close()
    assert result.error
    assert word in result.text


async def run_with_a_core(runner: SandboxRunner, program: str) -> CodeResult:
    """On a busy machine a program that got no core to run on is no verdict: try again."""
    for _ in range(20):
        try:
            return await runner.run(program)
        except RunnerDown as error:
            if "too busy" not in str(error):
                raise
    raise AssertionError("the machine is too busy for this test")


async def test_an_episode_runs_its_code():
    actions = ["So ```python", "\nfrom math import comb\nprint(comb(10, 3))\n```", "It is 120."]
    engine = ScriptedEngine(lambda call: completion(actions.pop(0), eos=not actions, finish_reason="stop"))
    env = EnvConfig()
    executor = MathTirExecutor(env, CodeTool(env))
    try:
        sampling = SamplingParams(max_tokens=300)
        trajectory = await executor.execute("?", "", sampling, 400, FakeTokenizer(), engine)
    finally:
        await executor.close()
    text = FakeTokenizer().decode(trajectory.segments[0].token_ids.tolist())
    assert "```output\n120\n```\n\n\nIt is 120.<eos>" in text
    assert trajectory.facts["code_success_rate"] == 1
