"""An HTTP server of reward models, for `--reward.remote_url` and anyone else.

    POST /get_reward  {"query": [conversation], "prompts": [...] (optional), "labels": [...] (optional)}
                      -> {"rewards": [number or null], "scores": [the same], "extra_logs": {...}}
    GET  /health      -> {"status": "ok", "models": [...], "waiting": texts not scored yet}

Only `query`, prompt and response together, is scored; `null` stands for a number that is not finite. With several
models `extra_logs` holds each one's own scores.

Texts of requests that wait are scored together in a thread, AT_ONCE at a time, while the next ones gather. Serve it
with `handler_cancellation`, so that a request whose client has left is dropped instead of scored.
"""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from aiohttp import web

from openrlhf.reward.score_batcher import ScoreBatcher, ScoreTexts

AT_ONCE = 64  # texts; the less, the sooner a client has its answer
MAX_BODY_BYTES = 64 << 20
MAX_WAITING = 65_536  # texts; more are refused with 503, which clients retry, and more in one request with 413
_JSON = "application/json"
_EXPECTED = '{"query": [text, ...], "prompts": [...] (optional), "labels": [...] (optional)}'


def make_app(score: ScoreTexts, names: Sequence[str], at_once: int = AT_ONCE) -> web.Application:
    """The server's application.

    Args:
        names: of the models, as `extra_logs` and /health show them.
        at_once: most texts in a call of `score`.
    """
    batcher = ScoreBatcher(score, at_once)

    async def get_reward(request: web.Request) -> web.Response:
        texts = _texts(await _body(request))
        if len(texts) > MAX_WAITING:
            reason = f"{len(texts)} texts in one request; send at most {MAX_WAITING} at a time"
            raise web.HTTPRequestEntityTooLarge(MAX_WAITING, len(texts), text=_body_of(reason), content_type=_JSON)
        if batcher.waiting + len(texts) > MAX_WAITING:
            raise _refusal(web.HTTPServiceUnavailable, f"{batcher.waiting} texts wait already; try again")
        if not texts:
            return web.json_response({"rewards": [], "scores": [], "extra_logs": {}})
        rewards, parts = await batcher.submit(texts)
        logs = {name: _plain(part) for name, part in zip(names, parts, strict=True)} if len(names) > 1 else {}
        numbers = _plain(rewards)
        return web.json_response({"rewards": numbers, "scores": numbers, "extra_logs": logs})

    async def health(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "models": list(names), "waiting": batcher.waiting})

    async def close(app: web.Application) -> None:
        await batcher.close()

    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_json_errors])
    app.add_routes([web.post("/get_reward", get_reward), web.get("/health", health)])
    app.on_cleanup.append(close)
    return app


@web.middleware
async def _json_errors(request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
    """Every error is a short JSON body, one that nobody foresaw too."""
    try:
        response: web.StreamResponse = await handler(request)
        return response
    except web.HTTPException as error:
        if error.content_type == _JSON:
            raise
        return web.json_response({"error": f"{error.status} {error.reason}"}, status=error.status)
    except Exception as error:  # the trainer's client retries a 500
        first = (str(error).strip().splitlines() or [""])[0][:200]
        return web.json_response({"error": f"scoring failed: {type(error).__name__}: {first}"}, status=500)


async def _body(request: web.Request) -> Any:
    raw = await request.read()
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _refusal(web.HTTPBadRequest, f"the body is not JSON; expected {_EXPECTED}") from error


def _texts(body: Any) -> list[str]:
    """The texts of a request; what is beside them must fit them, though it is not scored."""
    query = body.get("query") if isinstance(body, dict) else None
    if not isinstance(query, list) or not all(isinstance(text, str) for text in query):
        raise _refusal(web.HTTPUnprocessableEntity, f"'query' must be a list of texts; expected {_EXPECTED}")
    for name in ("prompts", "labels"):
        beside = body.get(name)
        if beside is not None and (not isinstance(beside, list) or len(beside) != len(query)):
            raise _refusal(web.HTTPUnprocessableEntity, f"'{name}' must be a list of {len(query)}, one per query")
    return query


def _refusal(kind: type[web.HTTPException], reason: str) -> web.HTTPException:
    return kind(text=_body_of(reason), content_type=_JSON)


def _body_of(reason: str) -> str:
    return json.dumps({"error": reason})


def _plain(values: np.ndarray) -> list[float | None]:
    return [float(value) if math.isfinite(value) else None for value in values]
