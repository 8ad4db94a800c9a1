"""The HTTP reward contract against real local servers: payload, failover, retries, and public case f2."""

import asyncio
import math
import socket
import time
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from openrlhf.reward.errors import RewardError
from openrlhf.reward.http import REFUSALS, HttpReward, parse_body
from openrlhf.reward.tally import Tally
from openrlhf.types import Prompt, Status

PROMPT = Prompt(prompt_id=0, text="<|im_start|>2+2=", label="4")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture
async def serve():
    """Start a server for a handler of POST /reward; returns its address."""
    runners = []

    async def _serve(handler: Handler) -> str:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post("/reward", handler)
        app.router.add_post("/reward/", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        runners.append(runner)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        return f"http://{host}:{port}/reward"

    yield _serve
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def source():
    """Make HttpReward with short pauses; closed afterwards."""
    made = []

    def _source(*urls: str, **options) -> HttpReward:
        made.append(HttpReward(urls, **{"pause_s": 0.01, "timeout_s": 5.0, **options}))
        return made[-1]

    yield _source
    for one in made:
        await one.close()


@pytest.fixture
def refusing_port():
    """A port that refuses connections, and that nobody can take meanwhile: it is bound, and nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def answering(*bodies: str | int, seen: list | None = None) -> Handler:
    """A handler that gives these bodies (or error statuses) in turn, the last for ever."""
    turn = iter(range(1_000_000))

    async def handler(request: web.Request) -> web.Response:
        if seen is not None:
            seen.append(await request.json())
        body = bodies[min(next(turn), len(bodies) - 1)]
        if isinstance(body, int):
            return web.Response(status=body, text="try later")
        return web.Response(text=body, content_type="application/json")

    return handler


async def score(source: HttpReward, response: str = "4<|im_end|>"):
    return await source.score(PROMPT.text + response, PROMPT, response)


async def test_one_sample_per_request(serve, source):
    seen: list[dict] = []
    body = '{"rewards": [1.0], "scores": [0.5], "extra_logs": {"acc": [1]}}'
    outcome = await score(source(await serve(answering(body, seen=seen))))
    assert seen == [{"query": ["<|im_start|>2+2=4<|im_end|>"], "prompts": ["<|im_start|>2+2="], "labels": ["4"]}]
    assert (outcome.reward, outcome.score, outcome.extra_logs) == (1.0, 0.5, {"acc": 1.0})


async def test_any_text_survives_the_wire(serve, source):
    seen: list[dict] = []
    await score(source(await serve(answering('{"rewards": [1]}', seen=seen))), "naïve 数 \x00 \ud800 " + "x" * 10**6)
    assert seen[0]["query"][0].endswith("naïve 数 \x00 \ud800 " + "x" * 10**6)


@pytest.mark.parametrize("suffix", ["", "/"])
async def test_content_type_and_trailing_slash_do_not_matter(serve, source, suffix):
    async def handler(request: web.Request) -> web.Response:
        return web.Response(text='{"rewards": [1]}', content_type="text/html")

    assert (await score(source(await serve(handler) + suffix))).reward == 1.0


ANSWER = '{"rewards": [1], "extra_logs": {"é": 2}}'


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"\xef\xbb\xbf" + ANSWER.encode(), "application/json"),  # as .NET and PowerShell begin a UTF-8 text
        (b"\xef\xbb\xbf" + ANSWER.encode(), "application/json; charset=utf-8"),
        (ANSWER.encode("utf-16"), "application/json; charset=utf-16"),
        (b"\xff\xfe" + ANSWER.encode("utf-16-le"), "application/json; charset=UTF-16LE"),
        (ANSWER.encode("latin-1"), "application/json; charset=ISO-8859-1"),
        (ANSWER.encode(), 'text/plain; charset="utf8"'),
        (ANSWER.encode(), "application/json; charset=none-such"),
        (ANSWER.encode(), "application/json; charset=hex"),
    ],
)
async def test_an_answer_is_read_in_its_own_encoding(serve, source, body, kind):
    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Content-Type": kind})

    outcome = await score(source(await serve(handler)))
    assert (outcome.reward, outcome.extra_logs) == (1.0, {"é": 2.0})


@pytest.mark.parametrize("body", ['{"rewards": [NaN], "error_types": ["timeout"]}', '{"rewards": [null]}'])
async def test_nan_and_null_are_no_verdict(serve, source, body):
    http = source(await serve(answering(body)))
    outcome = await score(http)
    assert outcome.status is Status.UNGRADED
    assert math.isnan(outcome.reward)
    assert "/reward" in outcome.reason
    assert http.stats() == {"nan": 1}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"rewards":[1,0.5]}', [1.0, 0.5]),
        ('{"rewards":[[1],[0.5]]}', [1.0, 0.5]),  # one-element lists are read as their element
        ('{"rewards":[true,false]}', [1.0, 0.0]),
        ('{"rewards":[1,0.5],"extra_logs":{"acc":[1,0]}}', [1.0, 0.5]),
    ],
)
def test_bodies_for_two_samples_that_are_accepted(body, expected):
    outcomes = parse_body(body, 2, "reward server http://h/reward", Tally())
    assert [outcome.reward for outcome in outcomes] == expected
    if "acc" in body:
        assert [outcome.extra_logs for outcome in outcomes] == [{"acc": 1.0}, {"acc": 0.0}]


BAD_BODIES = [
    '{"rewards":["1","0.5"]}',
    '{"rewards":1.0}',
    "[1,0.5]",
    '{"reward":[1,0.5]}',
    "<html><body>Sign in</body></html>",
    "",
    "null",
    '{"rewards":[1,0.5]',
    '{"rewards":[1,2,3]}',
    '{"rewards":[1,0.5],"scores":[1]}',
    '{"rewards":[[1,2],[3,4]]}',
    '{"rewards":{"a":1}}',
    "[" * 100_000,
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: body[:20] or "empty")
def test_bodies_for_two_samples_that_are_refused(body):
    with pytest.raises(RewardError) as caught:
        parse_body(body, 2, "reward server http://h/reward", Tally())
    message = str(caught.value)
    assert message.startswith("reward server http://h/reward: ")
    assert (repr(body[:20])[1:-1] in message) if body else ("empty body" in message)
    assert "expected" in message
    assert "\n" not in message
    assert len(message) < 500


@pytest.mark.parametrize("body", ["", "[1]", '{"reward": [1]}', '{"rewards": [1, 2]}', "<html>"])
async def test_a_malformed_body_is_not_asked_for_again(serve, source, body):
    seen: list[dict] = []
    url = await serve(answering(body, seen=seen))
    with pytest.raises(RewardError, match=url):
        await score(source(url))
    assert len(seen) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408, 425])
async def test_passing_failures_are_tried_again(serve, source, status):
    seen: list[dict] = []
    http = source(await serve(answering(status, status, status, status, '{"rewards": [1]}', seen=seen)))
    assert (await score(http)).reward == 1.0
    assert len(seen) == 5
    assert http.stats() == {}


async def test_after_five_tries_the_sample_is_ungraded(serve, source, caplog):
    seen: list[dict] = []
    url = await serve(answering(503, seen=seen))
    http = source(url, concurrency=2)
    outcomes = await asyncio.gather(*(score(http) for _ in range(3)))
    assert len(seen) == 15
    for outcome in outcomes:
        assert outcome.status is Status.UNGRADED
        assert url in outcome.reason
        assert "503" in outcome.reason
        assert "try later" in outcome.reason
    assert http.stats() == {"http": 3}
    assert len([r for r in caplog.records if r.name.startswith("openrlhf")]) == 1


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_other_client_errors_end_the_run_at_once(serve, source, status):
    seen: list[dict] = []
    url = await serve(answering(status, seen=seen))
    with pytest.raises(RewardError, match=rf"{url}: status {status}, body 'try later'; expected"):
        await score(source(url))
    assert len(seen) == 1


@pytest.mark.parametrize("status", [413, 422])
async def test_a_sample_that_is_refused_among_others_is_ungraded(serve, source, status):
    """DeepGym refuses a text of more than 2,000,000 characters, which a policy may well produce once."""
    seen: list[dict] = []
    http = source(await serve(answering(status, '{"rewards": [1]}', *[status] * 20, seen=seen)))
    outcomes = [await score(http) for _ in range(22)]
    assert [outcome.status is Status.GRADED for outcome in outcomes] == [False, True, *[False] * 20]
    assert "the sample was refused" in outcomes[0].reason
    assert f"status {status}, body 'try later'" in outcomes[0].reason
    assert len(seen) == 22  # none is sent again
    assert http.stats() == {"refused": 21}


@pytest.mark.parametrize("status", [413, 422])
async def test_a_server_that_refuses_every_sample_ends_the_run(serve, source, status):
    url = await serve(answering(status))
    http = source(url)
    for _ in range(REFUSALS - 1):
        assert (await score(http)).status is Status.UNGRADED
    with pytest.raises(RewardError, match=rf"{url}: status {status}, body 'try later'; expected"):
        await score(http)


async def test_a_refused_connection_is_ungraded(source, refusing_port):
    outcome = await score(source(f"http://127.0.0.1:{refusing_port}/reward"))
    assert outcome.status is Status.UNGRADED
    assert str(refusing_port) in outcome.reason


async def test_a_silent_server_is_given_up_after_the_time_limit(serve, source):
    async def handler(request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    url = await serve(handler)
    started = time.monotonic()
    outcome = await score(source(url, timeout_s=0.1, tries=2))
    assert outcome.status is Status.UNGRADED
    assert f"{url}: no answer within 0.1 s" in outcome.reason
    assert time.monotonic() - started < 5


async def test_a_connection_cut_inside_the_body_is_tried_again(serve, source):
    first = [True]

    async def handler(request: web.Request) -> web.StreamResponse:
        if not first:
            return web.json_response({"rewards": [1]})
        first.clear()
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b'{"rewards"')
        assert request.transport is not None
        request.transport.close()
        return response

    assert (await score(source(await serve(handler)))).reward == 1.0


async def test_several_addresses_take_turns(serve, source):
    seen: list[list[dict]] = [[], [], []]
    urls = [await serve(answering('{"rewards": [1]}', seen=one)) for one in seen]
    http = source(*urls)
    await asyncio.gather(*(score(http) for _ in range(9)))
    assert [len(one) for one in seen] == [3, 3, 3]


async def test_a_dead_address_costs_one_try(serve, source, refusing_port):
    seen: list[dict] = []
    url = await serve(answering('{"rewards": [1]}', seen=seen))
    http = source(f"http://127.0.0.1:{refusing_port}/reward", url, tries=2)
    outcomes = await asyncio.gather(*(score(http) for _ in range(6)))
    assert [outcome.reward for outcome in outcomes] == [1.0] * 6
    assert len(seen) == 6


async def test_requests_run_beside_each_other_up_to_the_limit(serve, source):
    now, peak = [0], [0]

    async def handler(request: web.Request) -> web.Response:
        now[0] += 1
        peak[0] = max(peak[0], now[0])
        await asyncio.sleep(0.02)
        now[0] -= 1
        return web.json_response({"rewards": [1]})

    http = source(await serve(handler), concurrency=4)
    await asyncio.gather(*(score(http) for _ in range(20)))
    assert peak == [4]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects(serve, source, status):
    target = await serve(answering('{"rewards": [1]}'))

    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": target})

    http = source(await serve(handler))
    if status >= 307:  # keep the method
        assert (await score(http)).reward == 1.0
    else:
        with pytest.raises(RewardError, match=r"redirects to .* loses the POST"):
            await score(http)


async def test_what_does_not_speak_http_is_an_error(source):
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(RewardError, match=f"{port}/reward: .*expected an HTTP server"):
            await score(source(f"http://127.0.0.1:{port}/reward"))


async def test_an_endless_body_is_refused(serve, source):
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(1000):
            await response.write(b" " * (1 << 18))
        return response

    with pytest.raises(RewardError, match="exceeds"):
        await score(source(await serve(handler)))


async def test_credentials_stay_out_of_messages(source, refusing_port):
    outcome = await score(source(f"http://me:secret@127.0.0.1:{refusing_port}/reward", tries=1))
    assert str(refusing_port) in outcome.reason
    assert "secret" not in outcome.reason
