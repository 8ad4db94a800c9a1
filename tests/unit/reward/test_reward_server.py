"""The reward server: its wire format, batching over concurrent requests, short errors, and the trainer's own client."""

import asyncio
import threading
import time
from collections.abc import Sequence

import numpy as np
import pytest
from aiohttp.test_utils import TestClient, TestServer

from openrlhf.reward.http import HttpReward
from openrlhf.reward.server import MAX_WAITING, make_app
from openrlhf.types import Prompt, Status


class Scorer:
    """Scores a text by its length and remembers the batches; `gate` closed holds the first one back."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.busy = threading.Event()

    def __call__(self, texts: Sequence[str]) -> tuple[np.ndarray, list[np.ndarray]]:
        self.batches.append(list(texts))
        self.busy.set()
        self.gate.wait(120)
        if "boom" in texts:
            raise RuntimeError("the model broke")
        "".join(texts).encode()  # as a tokenizer does: a lone surrogate is refused
        scores = np.array([np.nan if text == "nan" else len(text) for text in texts], dtype=np.float32)
        return scores, [scores]


@pytest.fixture
async def served():
    scorer = Scorer()
    async with TestClient(TestServer(make_app(scorer, ["models/rm"]))) as client:
        yield scorer, client
        scorer.gate.set()


async def ask(client, body, status: int = 200):
    async with client.post("/get_reward", **body) as response:
        assert response.status == status, await response.text()
        return await response.json()


async def test_answers_in_the_documented_form(served) -> None:
    _, client = served
    body = {"query": ["abc", "d", "nan"], "prompts": ["a", "d", "n"], "labels": ["x", None, "y"]}
    assert await ask(client, {"json": body}) == {
        "rewards": [3.0, 1.0, None], "scores": [3.0, 1.0, None], "extra_logs": {}
    }  # fmt: skip
    assert await ask(client, {"json": {"query": []}}) == {"rewards": [], "scores": [], "extra_logs": {}}
    async with client.get("/health") as response:
        assert await response.json() == {"status": "ok", "models": ["models/rm"], "waiting": 0}


async def test_several_models_show_their_own_scores() -> None:
    def score(texts):
        parts = [np.full(len(texts), 1.0), np.full(len(texts), 2.0)]
        return parts[0] + parts[1], parts

    async with TestClient(TestServer(make_app(score, ["a", "b"]))) as client:
        answer = await ask(client, {"json": {"query": ["x"]}})
    assert answer == {"rewards": [3.0], "scores": [3.0], "extra_logs": {"a": [1.0], "b": [2.0]}}


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"data": b"{"}, 400, "not JSON"),
        ({"data": b"\xff"}, 400, "not JSON"),
        ({"json": ["abc"]}, 422, "'query' must be a list of texts"),
        ({"json": {"query": "abc"}}, 422, "'query' must be a list of texts"),
        ({"json": {"query": [1]}}, 422, "'query' must be a list of texts"),
        ({"json": {"query": ["a"], "labels": []}}, 422, "'labels' must be a list of 1"),
    ],
)
async def test_a_bad_body_gets_a_short_answer(served, body, status, says) -> None:
    scorer, client = served
    answer = await ask(client, body, status)
    assert says in answer["error"]
    assert len(answer["error"]) < 300
    assert scorer.batches == []


async def test_a_wrong_path_is_short_too(served) -> None:
    _, client = served
    async with client.post("/rewards", json={}) as response:
        assert response.status == 404
        assert await response.json() == {"error": "404 Not Found"}


async def test_what_waits_is_scored_together_and_the_loop_stays_free(served) -> None:
    scorer, client = served
    scorer.gate.clear()
    first = asyncio.create_task(ask(client, {"json": {"query": ["a"]}}))
    assert await asyncio.to_thread(scorer.busy.wait, 60)
    others = [asyncio.create_task(ask(client, {"json": {"query": ["x" * i]}})) for i in range(1, 21)]
    await until_waiting(client, 21)  # answered while the model is busy: all texts are there
    scorer.gate.set()
    assert (await first)["rewards"] == [1.0]
    assert [(await answer)["rewards"] for answer in others] == [[float(i)] for i in range(1, 21)]
    assert [len(batch) for batch in scorer.batches] == [1, 20]


async def busy_with_one(scorer: Scorer, client) -> asyncio.Task:
    """The model holds a first text, `first`, until the gate opens."""
    scorer.gate.clear()
    first = asyncio.create_task(ask(client, {"json": {"query": ["first"]}}))
    assert await asyncio.to_thread(scorer.busy.wait, 60)
    return first


async def until_waiting(client, count: int) -> None:
    waiting = -1
    deadline = time.monotonic() + 60
    while waiting != count:
        assert time.monotonic() < deadline, f"{waiting} texts wait, not {count}"
        await asyncio.sleep(0.01)
        async with client.get("/health") as response:
            waiting = (await response.json())["waiting"]


async def test_a_long_queue_is_answered_bit_by_bit(served) -> None:
    scorer, client = served
    first = await busy_with_one(scorer, client)
    sizes = (40, 24, 1, 130, 2)
    others = []
    for number, size in enumerate(sizes):
        others.append(
            asyncio.create_task(ask(client, {"json": {"query": [f"{number}" * (1 + i) for i in range(size)]}}))
        )
        await until_waiting(client, 1 + sum(sizes[: number + 1]))
    scorer.gate.set()
    await first
    for size, answer in zip(sizes, others, strict=True):
        assert (await answer)["rewards"] == [float(1 + i) for i in range(size)]
    # 64 at most: 40 and 24 fit exactly, the 130 do not go with the 1, and let the 2 go first after their first 64.
    assert [len(batch) for batch in scorer.batches] == [1, 64, 1, 64, 2, 64, 2]


async def test_one_bad_text_fails_its_own_request_only(served) -> None:
    scorer, client = served
    first = await busy_with_one(scorer, client)
    asked = []
    for query, status, waiting in ((["ab"], 200, 2), (["\ud800", "c"], 500, 4), (["abc", "d"], 200, 6)):
        asked.append(asyncio.create_task(ask(client, {"json": {"query": query}}, status)))
        await until_waiting(client, waiting)  # so that they arrive in this order
    scorer.gate.set()
    await first
    good, bad, other = await asyncio.gather(*asked)
    assert (good["rewards"], other["rewards"]) == ([2.0], [3.0, 1.0])
    assert bad["error"].startswith("scoring failed: UnicodeEncodeError: ")
    assert [sorted(map(len, batch)) for batch in scorer.batches] == [[5], [1, 1, 1, 2, 3], [2], [1, 1], [1, 3]]


async def test_more_texts_than_may_ever_wait_are_refused_for_good(served) -> None:
    scorer, client = served
    answer = await ask(client, {"json": {"query": ["a"] * (MAX_WAITING + 1)}}, 413)
    assert answer == {"error": "65537 texts in one request; send at most 65536 at a time"}
    first = await busy_with_one(scorer, client)
    answer = await ask(client, {"json": {"query": ["a"] * MAX_WAITING}}, 503)  # with room later
    assert answer == {"error": "1 texts wait already; try again"}
    scorer.gate.set()
    await first


async def test_a_failure_is_told_to_its_clients_and_ends_nothing(served) -> None:
    _, client = served
    answer = await ask(client, {"json": {"query": ["boom"]}}, 500)
    assert answer == {"error": "scoring failed: RuntimeError: the model broke"}
    assert (await ask(client, {"json": {"query": ["ab"]}}))["rewards"] == [2.0]


async def test_the_trainer_s_client_understands_it(served) -> None:
    _, client = served
    source = HttpReward([str(client.make_url("/get_reward"))], tries=1)
    try:
        good, none = await asyncio.gather(
            source.score("prompt answer", Prompt(0, "prompt ", "7"), "answer"),
            source.score("nan", Prompt(1, "n"), "an"),
        )
    finally:
        await source.close()
    assert (good.reward, good.score, good.status) == (13.0, 13.0, Status.GRADED)
    assert none.status is Status.UNGRADED
