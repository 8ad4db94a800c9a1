"""The math-verify service over HTTP, with a pool that is scripted."""

import pytest
from aiohttp.test_utils import TestClient, TestServer

from openrlhf.env import fork_server
from openrlhf.env.math import judge
from openrlhf.env.math.server import make_app
from openrlhf.env.workers import WorkerGone


class Pool:
    """Says the same of every pair, or raises."""

    size = 1

    def __init__(self, reply):
        self.reply = reply
        self.closed = False

    def compare(self, answer, gold):
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    def close(self):
        self.closed = True


async def ask(body, pool, max_waiting=8):
    async with TestClient(TestServer(make_app(pool, max_waiting))) as client:
        answer = await client.post("/math_verify", **({"data": body} if isinstance(body, bytes) else {"json": body}))
        return answer.status, await answer.json()


@pytest.mark.parametrize(
    ("reply", "status", "score"),
    [
        (judge.RIGHT, 200, 1.0),
        (judge.WRONG, 200, 0.0),
        (fork_server.OVERRUN, 200, 0.0),  # the answer's own fault
        (fork_server.LATE, 503, None),  # the machine's: never 0
        (WorkerGone("math grading: no math-verify"), 503, None),
    ],
)
async def test_verdicts_and_no_verdicts(reply, status, score):
    pool = Pool(reply)
    found, body = await ask({"prompt": "Q", "response": r"\boxed{14/2}", "gold_ans": 7}, pool)
    assert (found, body.get("score")) == (status, score)
    assert ("error" in body) is (status != 200)
    assert pool.closed


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "not JSON"),
        ([1], 422, "'response'"),
        ({"gold_ans": "7"}, 422, "'response'"),
        ({"response": "7"}, 422, "'gold_ans'"),
        ({"response": "7", "gold_ans": " "}, 422, "'gold_ans'"),
        ({"response": "7", "gold_ans": "$$"}, 422, "'gold_ans'"),
        ({"response": "7", "gold_ans": r"\boxed{}"}, 422, "'gold_ans'"),
        ({"response": "7", "gold_ans": "7 ####"}, 422, "'gold_ans'"),
        ({"response": "7", "gold_ans": {"value": "7"}}, 422, "is a dict or list"),
    ],
)
async def test_requests_of_another_form(body, status, said):
    found, answer = await ask(body, Pool(judge.RIGHT))
    assert found == status
    assert said in answer["error"]


async def test_a_body_that_does_not_unpack():
    async with TestClient(TestServer(make_app(Pool(judge.RIGHT)))) as client:
        for _ in range(2):
            answer = await client.post("/math_verify", data=b"xx", headers={"Content-Encoding": "gzip"})
            assert (answer.status, list(await answer.json())) == (400, ["error"])


async def test_a_full_queue_refuses():
    assert (await ask({"response": r"\boxed{1}", "gold_ans": "2"}, Pool(judge.WRONG), max_waiting=0))[0] == 503


async def test_health_and_unknown_paths():
    async with TestClient(TestServer(make_app(Pool(judge.RIGHT)))) as client:
        assert await (await client.get("/health")).json() == {"status": "ok", "workers": 1, "waiting": 0}
        assert (await client.get("/nowhere")).status == 404
