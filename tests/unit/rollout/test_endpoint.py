"""A served model as an engine, against a server of the test's own process."""

from typing import Any

import pytest
from aiohttp import web

from openrlhf.rollout.endpoint import TRIES, EndpointDown, EndpointEngine
from openrlhf.rollout.errors import GenerationError
from openrlhf.types import SamplingParams
from tests.fakes import FakeTokenizer


@pytest.fixture
async def serve():
    """serve(answers) -> (address, bodies): the n-th request gets the n-th answer, the last one again and again."""
    runners = []

    async def start(*answers: Any) -> tuple[str, list[dict[str, Any]]]:
        bodies: list[dict[str, Any]] = []

        async def complete(request: web.Request) -> web.Response:
            bodies.append({**await request.json(), "key": request.headers.get("Authorization")})
            answer = answers[min(len(bodies), len(answers)) - 1]
            return web.Response(status=answer) if isinstance(answer, int) else web.json_response(answer)

        async def models(request: web.Request) -> web.Response:
            return web.json_response({"data": [{"id": "the-model"}]})

        app = web.Application()
        app.router.add_post("/v1/completions", complete)
        app.router.add_get("/v1/models", models)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        runners.append(runner)
        return f"http://127.0.0.1:{runner.addresses[0][1]}/v1", bodies

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def engine_at():
    made = []

    def make(url: str, **options: Any) -> EndpointEngine:
        async def no_pause(seconds: float) -> None: ...

        made.append(EndpointEngine(url, FakeTokenizer(), pause=no_pause, **options))
        return made[-1]

    yield make
    for engine in made:
        await engine.close()


def says(text: str, finish: str = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"text": text, "finish_reason": finish, **more}]}


async def test_ids_go_in_and_text_comes_out(serve, engine_at):
    url, bodies = await serve(says("xy", "length"))
    engine = engine_at(url + "/", key="sesame")
    assert await engine.start() == "the-model"
    sampling = SamplingParams(temperature=0.5, top_p=0.9, max_tokens=8, stop=("a",), seed=3, logit_bias={5: -1.0})
    completion = await engine.generate([1, 2], sampling)
    assert (completion.token_ids.tolist(), completion.finish_reason) == ([120, 121], "length")
    assert completion.logprobs.tolist() == [0.0, 0.0]
    assert bodies == [
        {
            "model": "the-model",
            "prompt": [1, 2],
            "max_tokens": 8,
            "temperature": 0.5,
            "top_p": 0.9,
            "n": 1,
            "seed": 3,
            "stop": ["a"],
            "include_stop_str_in_output": True,
            "no_stop_trim": True,
            "logit_bias": {"5": -1.0},
            "return_token_ids": True,
            "key": "Bearer sesame",
        }
    ]


async def test_ids_that_the_server_gives_are_taken(serve, engine_at):
    url, _ = await serve(says("xy", token_ids=[7, 8, 0]))
    completion = await engine_at(url, model="m").generate([1], SamplingParams(max_tokens=8))
    assert completion.token_ids.tolist() == [7, 8, 0]


@pytest.mark.parametrize("name", ["stop_reason", "matched_stop"])
async def test_a_stop_that_the_server_cut_off_is_put_back(serve, engine_at, name):
    stops = ("```", "User:")
    cases = [
        ("x = 1\n", {name: "```"}, "x = 1\n```"),
        ("x = 1\n```", {name: "```"}, "x = 1\n```"),
        ("x", {name: 7}, "x"),  # the id of a token
        ("x", {name: None}, "x"),
        ("x", {name: "of the server's own"}, "x"),
    ]
    url, bodies = await serve(*(says(text, **more) for text, more, _ in cases))
    engine = engine_at(url, model="m")
    for _, _, expected in cases:
        completion = await engine.generate([1], SamplingParams(max_tokens=8, stop=stops))
        assert "".join(map(chr, completion.token_ids)) == expected
    trimming = SamplingParams(max_tokens=8, stop=stops, include_stop_str_in_output=False)
    await engine.generate([1], trimming)
    assert [body["no_stop_trim"] for body in bodies[-2:]] == [True, False]


async def test_a_busy_server_is_asked_again(serve, engine_at):
    url, bodies = await serve(503, 429, 408, 425, says("x"))
    completion = await engine_at(url, model="m").generate([1], SamplingParams(max_tokens=8))
    assert completion.token_ids.tolist() == [120]
    assert len(bodies) == 5


async def test_a_server_that_stays_down_fails_the_request(serve, engine_at):
    url, bodies = await serve(500)
    with pytest.raises(EndpointDown, match=f"{TRIES} tries, the last: status 500"):
        await engine_at(url, model="m").generate([1], SamplingParams(max_tokens=8))
    assert len(bodies) == TRIES
    with pytest.raises(EndpointDown, match="127"):
        await engine_at("http://127.0.0.1:1/v1", model="m").generate([1], SamplingParams(max_tokens=8))


async def test_one_request_that_is_refused_is_not_repeated(serve, engine_at):
    url, bodies = await serve(400)
    with pytest.raises(EndpointDown, match="status 400"):
        await engine_at(url, model="m").generate([1], SamplingParams(max_tokens=8))
    assert len(bodies) == 1


@pytest.mark.parametrize("answer", [401, 404, {"choices": []}, says("x", "banana"), ["x"]])
async def test_what_would_go_wrong_every_time_ends_the_evaluation(serve, engine_at, answer):
    url, bodies = await serve(answer)
    with pytest.raises(GenerationError, match="completions"):
        await engine_at(url, model="m").generate([1], SamplingParams(max_tokens=8))
    assert len(bodies) == 1
