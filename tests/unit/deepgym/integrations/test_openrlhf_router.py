"""POST /reward/score, as the page of the seed describes it: bodies, limits, and what goes over the wire."""

import asyncio
import json
import math

import aiohttp
import httpx
import pytest
from fastapi import FastAPI
from pydantic import ValidationError

from deepgym.exceptions import SandboxError
from deepgym.integrations import openrlhf, payload
from deepgym.integrations.openrlhf import create_openrlhf_router
from deepgym.integrations.payload import ScoreRequest
from tests.deepgym_fakes import FakeGym, Run, environment, run_virtual, served, verdict

MISMATCH = {"query": ["nothing of it"], "prompts": ["prompt: "]}


def app_with(gym: FakeGym, score: str = "nan", **options) -> FastAPI:
    app = FastAPI()
    app.include_router(create_openrlhf_router(environment(), gym, infra_failure_score=score, **options))
    return app


def post(body, gym: FakeGym | None = None, score: str = "nan", **options) -> httpx.Response:
    """Send `body`: bytes as they are, anything else as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def main():
        transport = httpx.ASGITransport(app_with(gym or FakeGym(), score, **options))
        async with httpx.AsyncClient(transport=transport, base_url="http://gym") as client:
            return await client.post("/reward/score", content=content)

    return run_virtual(main())


@pytest.mark.parametrize("value", [None, 0, 0.0, math.nan, "NaN", "none", "", "Zero", True, ["nan"]])
def test_the_operator_chooses_what_an_ungraded_sample_gets(value):
    with pytest.raises(ValueError, match=r"choose 'nan'.*or 'zero'"):
        create_openrlhf_router(environment(), FakeGym(), infra_failure_score=value)


def test_there_is_no_default():
    with pytest.raises(ValueError, match="infra_failure_score"):
        create_openrlhf_router(environment(), FakeGym())


@pytest.mark.parametrize(("count", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("a", TypeError)])
def test_slots_are_a_whole_number(count, error):
    with pytest.raises(error):
        create_openrlhf_router(environment(), FakeGym(), infra_failure_score="nan", max_parallel=count)


def test_an_environments_name_is_no_environment():
    with pytest.raises(TypeError, match=r"'coin_change'.*load_environment"):
        create_openrlhf_router("coin_change", FakeGym(), infra_failure_score="nan")


def test_the_payload_of_openrlhfs_client():
    gym = FakeGym({"good": [Run(verdict(1.0))], "bad": [Run(verdict(0.25))]})
    body = {"query": ["add: good", "add: bad"], "prompts": ["add: "] * 2, "labels": ["", None]}
    response = post(body, gym)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json()["rewards"] == [1.0, 0.25]
    assert response.json()["error_types"] == [None, None]
    assert [answer for answer, _ in gym.calls] == ["good", "bad"]


def test_outputs_are_responses_and_win():
    gym = FakeGym()
    assert post({"outputs": ["a"], "prompts": ["p"]}, gym).json()["rewards"] == [1.0]
    assert post({"outputs": ["p b"], "query": ["p c", "one too many"], "prompts": ["p "]}, gym).status_code == 200
    assert [answer for answer, _ in gym.calls] == ["a", "p b"]


def test_no_samples_no_rewards():
    assert post({"query": [], "prompts": []}).json() == {"rewards": [], "error_types": [], "extra_logs": {}}


@pytest.mark.parametrize(("score", "text"), [("nan", "NaN"), ("zero", "0.0")])
def test_a_sample_without_a_verdict_gets_the_chosen_score(score, text):
    response = post(MISMATCH, score=score)
    assert (
        response.text
        == f'{{"rewards": [{text}], "error_types": ["prompt_mismatch"], "extra_logs": {{"verdict_rate": 0.0}}}}'
    )


async def test_the_trainers_json_client_reads_nan():
    """aiohttp, over a real socket: the client that OpenRLHF uses."""
    async with (
        served(app_with(FakeGym())) as address,
        aiohttp.ClientSession() as session,
        session.post(f"{address}/reward/score", json=MISMATCH) as response,
    ):
        reward = (await response.json())["rewards"][0]
    assert isinstance(reward, float)
    assert math.isnan(reward)


def test_rates_over_the_request():
    """Judged: 1.0 with 2 of 2 cases, 0.5 with 1 of 2, a crash with no case at all; and one without a verdict."""
    crash = verdict(0.0, cases=())
    gym = FakeGym({"a": [Run(verdict(1.0))], "b": [Run(verdict(0.5))], "c": [Run(crash)]})
    body = {"query": ["pa", "pb", "pc", "x"], "prompts": ["p"] * 4}
    logs = post(body, gym).json()["extra_logs"]
    assert logs == {"verdict_rate": 0.75, "pass_rate": pytest.approx(1 / 3), "case_pass_rate": 0.5}


MALFORMED = {
    "no json": b"{",
    "nothing": b"",
    "not utf-8": b'{"prompts": ["\xff"], "query": ["a"]}',
    "utf-16": '{"prompts": [], "query": []}'.encode("utf-16"),
    "a list": b"[]",
    "null": b"null",
    "no prompts": {"query": ["a"]},
    "no prompts beside outputs": {"outputs": ["a"]},
    "neither query nor outputs": {"prompts": ["a"]},
    "both null": {"prompts": ["a"], "query": None, "outputs": None},
    "more queries than prompts": {"query": ["a", "b"], "prompts": ["a"]},
    "fewer queries than prompts": {"query": [], "prompts": ["a"]},
    "more outputs than prompts": {"outputs": ["a", "b", "c"], "prompts": ["a"]},
    "a bare string": {"query": "a", "prompts": ["a"]},
    "a number": {"query": [1], "prompts": ["a"]},
    "a null": {"query": [None], "prompts": ["a"]},
    "a list within": {"query": [["a"]], "prompts": ["a"]},
    "an object": {"query": {"0": "a"}, "prompts": ["a"]},
    "NaN": b'{"query": [NaN], "prompts": ["a"]}',
    "a lone surrogate": b'{"query": ["\\ud800"], "prompts": ["a"]}',
    "a lone surrogate as a key": b'{"query": ["a"], "prompts": ["a"], "\\udfff": 1}',
    "deep nesting": b'{"query": ["a"], "prompts": ["a"], "labels": ' + b"[" * 5000 + b"]" * 5000 + b"}",
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_body_gets_422(body):
    gym = FakeGym()
    response = post(body, gym)
    assert response.status_code == 422
    assert response.json()["detail"]
    assert gym.calls == []


def test_what_the_router_does_not_know_is_ignored():
    body = b'{"query": ["pa"], "prompts": ["p"], "labels": NaN, "more": {"x": [1e400, 12345678901234567890]}, "": ""}'
    assert post(body).status_code == 200


def test_an_error_repeats_nothing_of_the_body():
    body = {"query": [["secret"]] * 1000, "prompts": ["secret"] * 1000, "secret": "secret"}
    response = post(body)
    assert response.status_code == 422
    assert "secret" not in response.text
    assert len(response.text) < 2000


@pytest.mark.parametrize("name", ["query", "outputs", "prompts"])
def test_characters_of_one_text(name):
    body = {"query": [""], "prompts": [""], "outputs": [""]}
    text = "é" * 2_000_000  # two bytes each: characters are counted
    ScoreRequest.model_validate(body | {name: [text]})
    with pytest.raises(ValidationError, match="at most 2000000 characters"):
        ScoreRequest.model_validate(body | {name: [text + "é"]})


@pytest.mark.parametrize(("count", "status"), [(1024, 200), (1025, 422)])
def test_samples_of_one_request(count, status):
    assert post({"outputs": [""] * count, "prompts": [""] * count}).status_code == status


def test_characters_in_all(monkeypatch):
    """All three lists count: 10 + 20 + 30."""
    assert payload.MAX_TOTAL_CHARS == 64_000_000
    body = {"query": ["a" * 10], "prompts": ["a" * 20], "outputs": ["a" * 30]}
    monkeypatch.setattr(payload, "MAX_TOTAL_CHARS", 60)
    assert post(body).status_code == 200
    monkeypatch.setattr(payload, "MAX_TOTAL_CHARS", 59)
    assert post(body).json()["detail"][0]["msg"] == "60 characters in all; at most 59"


@pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 422)])
def test_a_cap_on_the_raw_body(more, status):
    body = b'{"query": [], "prompts": []}'
    response = post(body + b" " * more, max_body_bytes=len(body))
    assert response.status_code == status
    if more:
        assert response.json()["detail"][0]["msg"] == "the body has 29 bytes; at most 28 are read"


def test_the_default_cap_lets_every_character_of_the_basic_plane_through():
    assert openrlhf.MAX_BODY_BYTES > 6 * payload.MAX_TOTAL_CHARS


def call_app(app, receive):
    """Drive the app over bare ASGI with a hand-made client; the messages it sent, and the time it took."""
    scope = {"type": "http", "method": "POST", "path": "/reward/score", "headers": [], "query_string": b""}
    sent = []

    async def send(message):
        sent.append(message)

    async def main():
        await app(scope, receive, send)
        took = asyncio.get_running_loop().time()
        await asyncio.sleep(1.0)
        return took

    return sent, run_virtual(main())


def test_a_body_that_never_ends_gets_408_at_the_deadline():
    async def receive():
        await asyncio.sleep(60.0)
        return {"type": "http.request", "body": b" ", "more_body": True}

    sent, took = call_app(app_with(FakeGym()), receive)
    assert sent[0]["status"] == 408  # the client may send it again; every whole body gets 200 or 422
    assert took == 150.0


def test_the_deadline_counts_from_the_start_of_the_body():
    """140 s for the body leave the run 10 s."""
    gym = FakeGym({"a": [Run(verdict(1.0), seconds=20.0)]})
    chunks = [b'{"outputs": ["a"],', b'"prompts": [""]}']

    async def receive():
        await asyncio.sleep(70.0 if chunks else 1000.0)
        return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}

    sent, took = call_app(app_with(gym), receive)
    assert took == 150.0
    assert json.loads(sent[1]["body"])["error_types"] == ["deadline_exceeded"]


def test_the_runs_of_a_client_that_left_are_killed():
    gym = FakeGym({"a": [Run(verdict(1.0), seconds=100.0)]})
    messages = [
        {"type": "http.request", "body": b'{"outputs": ["a"], "prompts": [""]}'},
        {"type": "http.disconnect"},
    ]

    async def receive():
        await asyncio.sleep(5.0)
        return messages.pop(0)

    _, took = call_app(app_with(gym), receive)
    assert took == 10.0
    assert gym.killed == ["a"]


@pytest.mark.parametrize(("empty_parts", "killed", "took"), [(8, ["a"], 5.0), (9, [], 100.0)])
def test_empty_parts_after_the_body_do_not_hide_a_client_that_left(empty_parts, killed, took):
    """The client leaves after 5 s. Behind more than 8 parts nobody looks for that, and the run of 100 s goes on."""
    gym = FakeGym({"a": [Run(verdict(1.0), seconds=100.0)]})
    messages = [{"type": "http.request", "body": b'{"outputs": ["a"], "prompts": [""]}'}]
    messages += [{"type": "http.request", "body": b"", "more_body": False}] * empty_parts

    async def receive():
        if messages:
            return messages.pop(0)
        await asyncio.sleep(5.0)
        return {"type": "http.disconnect"}

    _, ended = call_app(app_with(gym), receive)
    assert (gym.killed, ended) == (killed, took)


class Replaying:
    """Pure ASGI middleware that reads the body, to log it, and hands it on as often as it is asked for."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]

        async def replay():
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replay, send)


async def _replace_receive(request, call_next):
    """The same as an `http` middleware; Starlette raises RuntimeError when its app asks for more than the body."""
    body = await request.body()

    async def replay():
        return {"type": "http.request", "body": body}

    request._receive = replay
    return await call_next(request)


@pytest.mark.parametrize("middleware", ["asgi", "http"])
def test_middleware_that_repeats_the_body_is_no_client_that_left(middleware):
    """The run takes 5 s, in which another coroutine of this loop gets its turns: one a second, so 4 within the run."""
    gym = FakeGym({"a": [Run(verdict(0.5), seconds=5.0)]})
    app = app_with(gym)
    if middleware == "asgi":
        app.add_middleware(Replaying)
    else:
        app.middleware("http")(_replace_receive)
    turns = []

    async def others():
        while True:
            await asyncio.sleep(1.0)
            turns.append(asyncio.get_running_loop().time())

    async def main():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gym") as client:
            beside = asyncio.create_task(others())
            response = await client.post("/reward/score", json={"outputs": ["a"], "prompts": [""]})
            beside.cancel()
        return response

    response = run_virtual(main())
    assert (response.status_code, response.json()["rewards"]) == (200, [0.5])
    assert turns[:4] == [1.0, 2.0, 3.0, 4.0]
    assert gym.killed == []


def test_a_client_that_leaves_within_its_body():
    async def receive():
        return {"type": "http.disconnect"}

    sent, _ = call_app(app_with(FakeGym()), receive)
    assert sent[0]["status"] == 422


def test_a_run_never_fails_a_well_formed_request():
    gym = FakeGym({"a": [Run(SandboxError("gone"))], "b": [Run(RecursionError("ours"))], "c": [Run(verdict(1.0))]})
    response = post({"outputs": ["a", "b", "c"], "prompts": [""] * 3}, gym)
    assert response.status_code == 200
    assert response.json()["error_types"] == ["sandbox_error", "unknown_error", None]


def test_requests_wait_side_by_side_and_share_the_slots():
    """100 requests at once, one sample of 10 s each, 50 slots: 20 s, not 1000."""
    gym = FakeGym(default=lambda answer: Run(verdict(1.0), seconds=10.0))

    async def main():
        transport = httpx.ASGITransport(app_with(gym, max_parallel=50))
        async with httpx.AsyncClient(transport=transport, base_url="http://gym", timeout=None) as client:
            body = {"query": ["pa"], "prompts": ["p"]}
            responses = await asyncio.gather(*(client.post("/reward/score", json=body) for _ in range(100)))
        return [response.json()["rewards"] for response in responses], asyncio.get_running_loop().time()

    rewards, took = run_virtual(main())
    assert rewards == [[1.0]] * 100
    assert took == 20.0
    assert gym.most_at_once == 50


def test_the_form_of_the_body_is_documented():
    body = app_with(FakeGym()).openapi()["paths"]["/reward/score"]["post"]["requestBody"]
    assert body["content"]["application/json"]["schema"]["required"] == ["prompts"]
