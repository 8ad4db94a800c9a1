"""Limits and retries of code blocks, with a scripted runner."""

import asyncio
import logging

import pytest

from openrlhf.config.env import EnvConfig
from openrlhf.env.code_result import CodeResult
from openrlhf.env.code_runner import RunnerDown
from openrlhf.env.code_tool import CodeTool
from tests.fakes import ScriptedRunner


def config(**code: object) -> EnvConfig:
    return EnvConfig.model_validate({"code": code})


async def test_no_more_programs_at_once_than_the_process_may_run():
    runner = ScriptedRunner(lambda code: CodeResult(code, error=False))
    tool = CodeTool(config(max_concurrent=3), runner)
    results = await asyncio.gather(*(tool.run(str(number)) for number in range(20)))
    assert [result.text for result in results] == [str(number) for number in range(20)]
    assert runner.most_at_once == 3


async def test_a_runner_that_is_down_is_tried_again_and_its_failure_is_said(caplog):
    pauses = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    def down(code: str) -> CodeResult:
        raise RunnerDown("nobody there")

    runner = ScriptedRunner(down)
    tool = CodeTool(config(max_retries=4), runner, pause)
    with caplog.at_level(logging.WARNING):
        results = [await tool.run("1"), await tool.run("2")]
    assert results == [CodeResult("RunTime ERROR", error=True, down="nobody there")] * 2
    assert runner.programs == ["1"] * 4 + ["2"] * 4
    assert pauses == [1, 2, 4] * 2
    assert [record.message.count("nobody there") for record in caplog.records] == [1]


async def test_a_second_try_that_works_is_the_result():
    runner = ScriptedRunner(lambda code: CodeResult("ok", error=False))
    runner.failures = [RunnerDown("busy")]

    async def pause(seconds: float) -> None: ...

    assert (await CodeTool(config(), runner, pause).run("1")).text == "ok"
    assert len(runner.programs) == 2


async def test_earlier_programs_run_first_where_rounds_are_merged():
    for merge, expected in ((True, "a = 1\nb = 2\nprint(a)"), (False, "print(a)")):
        runner = ScriptedRunner(lambda code: CodeResult("", error=False))
        await CodeTool(config(merge_rounds=merge), runner).run("print(a)", ["a = 1", "b = 2"])
        assert runner.programs == [expected]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, False),
        ({"proxy_file": "ip.txt"}, False),  # it leads to verification services only
        ({"code": {"port": 1}}, False),
        ({"proxy_file": "ip.txt", "code": {"port": 1}}, True),
        ({"server": "http://here", "code": {"port": 1}}, True),
    ],
)
def test_a_server_needs_a_port_and_an_address(settings, expected):
    assert EnvConfig.model_validate(settings).has_code_server is expected
