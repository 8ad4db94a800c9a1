"""Clients of verification services, against a server that is scripted."""

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from openrlhf.config.env import EnvConfig
from openrlhf.env.verifiers.judge_model import JudgeModel, read_verdict
from openrlhf.env.verifiers.math import LocalMath, ServedMath
from openrlhf.env.workers import WorkerGone


class Service:
    """Answers each request with the next of `answers`, the last one again and again; (status, body)."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        app = web.Application()
        app.router.add_post("/{path:.*}", self._answer)
        self.server = TestServer(app)

    async def _answer(self, request):
        self.asked.append((request.path, await request.json()))
        status, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return web.json_response(body, status=status)

    async def __aenter__(self):
        await self.server.start_server()
        return self

    async def __aexit__(self, *_):
        await self.server.close()

    def env(self, **verifier):
        return EnvConfig.model_validate(
            {"server": "http://127.0.0.1", "verifier": {"math_port": self.server.port, **verifier}}
        )


async def verdict(client, *arguments):
    try:
        return await client.verify(*arguments)
    finally:
        await client.close()


@pytest.mark.parametrize(
    ("answers", "expected", "requests"),
    [
        ([(200, {"score": 1.0})], 1.0, 1),
        ([(200, {"score": 0})], 0.0, 1),
        ([(503, {}), (429, {}), (200, {"score": 1})], 1.0, 3),
        ([(408, {}), (425, {}), (200, {"score": 1})], 1.0, 3),
        ([(500, {})], None, 3),
        ([(404, {})], None, 1),  # lasting: not tried again
        ([(200, {"score": None})], None, 1),
        ([(200, {"score": -10000.0})], None, 1),
        ([(200, {"points": 1})], None, 1),
        ([(200, [1])], None, 1),
    ],
)
async def test_a_math_service(answers, expected, requests):
    async with Service(*answers) as service:
        assert await verdict(ServedMath(service.env(), pause_s=0.0), "Q", r"\boxed{7}", "7") == expected
    assert service.asked == [("/math_verify", {"prompt": "Q", "response": r"\boxed{7}", "gold_ans": "7"})] * requests


async def test_another_math_service():
    async with Service((200, {"value": 1})) as service:
        url = f"http://127.0.0.1:{service.server.port}/"
        client = ServedMath(service.env(math_url=url, math_key="value"), pause_s=0.0)
        assert await client.verify("Q", r"<think>\boxed{1}</think> \boxed{7}", "7") == 1.0
        assert await client.verify("Q", "7", "7") == 0.0  # no answer: nothing to ask
        await client.close()
    assert service.asked == [("/verify", {"gold": "7", "answer": "7"})]


async def test_the_proxy_may_move_and_may_be_away(tmp_path):
    file = tmp_path / "ip.txt"
    async with Service((200, {"score": 1})) as service:
        env = EnvConfig.model_validate(
            {"proxy_file": str(file), "verifier": {"math_port": service.server.port, "max_retries": 2}}
        )
        client = ServedMath(env, pause_s=0.0)
        assert await client.verify("Q", "x", "7") is None  # no file yet
        file.write_text("http://127.0.0.1\n")
        assert await client.verify("Q", "x", "7") == 1.0
        await client.close()


async def test_nobody_listens():
    env = EnvConfig.model_validate({"server": "http://127.0.0.1", "verifier": {"math_port": 1}})
    assert await verdict(ServedMath(env, pause_s=0.0), "Q", "x", "7") is None


def said(text):
    return (200, {"choices": [{"message": {"content": text}}]})


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (said("Correct"), 1.0),
        (said("[Incorrect]"), 0.0),
        (said("NONE"), None),
        (said("maybe"), None),
        ((200, {}), None),
    ],
)
async def test_a_judging_model(answer, expected):
    async with Service(answer) as service:
        env = service.env(judge_port=service.server.port)
        assert await verdict(JudgeModel(env, pause_s=0.0), "What is 3+4?", "7.0", "7") == expected
    ((path, body),) = service.asked
    assert path == "/v1/chat/completions"
    assert (body["model"], body["temperature"]) == ("default", 0)
    assert all(text in body["messages"][0]["content"] for text in ("What is 3+4?", "7.0"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [(" **correct.** ", 1.0), ("Correct, I think", None), ("not correct", None), ("", None), ("INCORRECT", 0.0)],
)
def test_only_the_bare_word_is_a_verdict(text, expected):
    assert read_verdict(text) == expected


class BrokenPool:
    """A pool whose workers cannot start."""

    size = 1

    def compare(self, answer, gold):
        raise WorkerGone("math grading: no math-verify")

    def close(self):
        """Nothing to close."""


async def test_workers_that_cannot_start_are_no_verdict():
    local = LocalMath(BrokenPool())
    assert await local.verify("Q", r"\boxed{7}", "7") == 1.0  # equal texts need no worker
    assert await local.verify("Q", r"\boxed{14/2}", "7") is None
    assert await local.verify("Q", r"\boxed{7}", " ") is None  # no right answer
    await local.close()
