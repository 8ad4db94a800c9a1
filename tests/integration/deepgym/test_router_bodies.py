"""Thousands of generated bodies: the reward endpoint answers 200 or 422 and never echoes, whatever comes."""

import asyncio
import json
import math
from collections import Counter

import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepgym.integrations.openrlhf import create_openrlhf_router
from tests.deepgym_fakes import FakeGym, environment

NAMES = ("query", "prompts", "outputs", "labels", "", "prompt", "\ud800")

any_text = st.text(st.characters(), max_size=8)  # lone surrogates and NULs included
numbers = st.integers() | st.floats() | st.sampled_from([10**400, -0.0, 1e308])
leaves = st.none() | st.booleans() | numbers | any_text
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3), max_leaves=4
)
nearly_texts = st.lists(any_text | leaves, max_size=3)
objects = st.dictionaries(st.sampled_from(NAMES), nearly_texts | values, max_size=5)


@st.composite
def sound(draw) -> dict:
    """A body that should pass, unless a text of it holds a lone surrogate."""
    prompts = draw(st.lists(any_text, max_size=3))
    responses = [draw(any_text) for _ in prompts]
    if draw(st.booleans()):
        return {"prompts": prompts, "outputs": responses, "labels": draw(values)}
    queries = [draw(st.sampled_from([prompt, ""])) + text for prompt, text in zip(prompts, responses, strict=True)]
    return {"prompts": prompts, "query": queries, "labels": draw(values)}


@st.composite
def encoded(draw, bodies) -> bytes:
    text = json.dumps(draw(bodies), ensure_ascii=draw(st.booleans()))
    return text.encode(draw(st.sampled_from(["utf-8"] * 4 + ["utf-16", "utf-8-sig"])), "surrogatepass")


@st.composite
def damaged(draw) -> bytes:
    """A sound body, cut somewhere, with a few bytes put in."""
    raw = draw(encoded(sound()))
    start, end = (draw(st.integers(0, len(raw))) for _ in range(2))
    return raw[:start] + draw(st.binary(max_size=3)) + raw[end:]


bodies = st.one_of(
    encoded(sound()), encoded(objects), encoded(values), damaged(), st.binary(max_size=40), encoded(sound())
)


async def post(app: FastAPI, body: bytes) -> tuple[int, bytes]:
    """Status and body of the answer, over bare ASGI: an HTTP client would cost more than the router."""
    scope = {"type": "http", "method": "POST", "path": "/reward/score", "headers": [], "query_string": b""}
    sent: list[dict] = []
    asked = asyncio.Event()

    async def receive() -> dict:
        if asked.is_set():
            await asyncio.Event().wait()  # the client stays
        asked.set()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [1000, pytest.param(5000, marks=pytest.mark.slow)])
def test_every_body_gets_200_or_422(count):
    app = FastAPI()
    app.include_router(create_openrlhf_router(environment(), FakeGym(), infra_failure_score="nan"))
    seen: Counter[int] = Counter()
    with asyncio.Runner() as runner:

        @settings(
            max_examples=count,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
        )
        @given(bodies)
        def send(body: bytes) -> None:
            status, content = runner.run(post(app, body))
            seen[status] += 1
            assert status in (200, 422)
            answer = json.loads(content)
            if status == 200:
                assert len(answer["rewards"]) == len(answer["error_types"]) == len(json.loads(body)["prompts"])
                assert all(math.isnan(reward) or reward == 1.0 for reward in answer["rewards"])
            else:
                assert len(content) < 4000
                assert all(set(problem) == {"type", "loc", "msg"} for problem in answer["detail"])

        send()
    assert sum(seen.values()) >= count
    assert min(seen[200], seen[422]) > count / 10  # both kinds were there
