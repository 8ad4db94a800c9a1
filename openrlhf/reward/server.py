"""An HTTP server of reward models, for `--reward.remote_url` and anyone else.

    POST /get_reward  {"query": [conversation], "prompts": [...] (optional), "labels": [...] (optional)}
                      -> {"rewards": [number or null], "scores": [the same], "extra_logs": {...}}
    GET  /health      -> {"status": "ok", "models": [...], "waiting": texts not scored yet}

Only `query`, prompt and response together, is scored; `null` stands for a number that is not finite. With several
models `extra_logs` holds each one's own scores.

Texts of all requests that wait are scored together, in a thread: while one batch runs the next one gathers.
"""

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from aiohttp import web

MAX_BODY_BYTES = 64 << 20
MAX_WAITING = 65_536  # texts; more are refused with 503, which clients retry
_EXPECTED = '{"query": [text, ...], "prompts": [...] (optional), "labels": [...] (optional)}'

# texts -> (rewards, each model's own scores), all (len(texts),)
ScoreTexts = Callable[[Sequence[str]], tuple[np.ndarray, list[np.ndarray]]]


@dataclass(frozen=True, slots=True)
class _Waiting:
    texts: list[str]
    answer: asyncio.Future[tuple[np.ndarray, list[np.ndarray]]]


class ScoreBatcher:
    """Scores the texts of concurrent requests together, off the event loop. Starts with the first request.

    Args:
        score: runs in one thread, never twice at the same time.
    """

    def __init__(self, score: ScoreTexts) -> None:
        self._score = score
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="score")
        self._worker: asyncio.Task[None] | None = None
        self.waiting = 0  # texts

    async def submit(self, texts: list[str]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Rewards of these texts, and each model's own scores. Raises what scoring raised."""
        if self._worker is None:
            self._worker = asyncio.create_task(self._run())
        request = _Waiting(texts, asyncio.get_running_loop().create_future())
        self.waiting += len(texts)
        self._queue.put_nowait(request)
        try:
            return await request.answer
        finally:
            self.waiting -= len(texts)

    async def close(self) -> None:
        """Drop what waits; a batch that runs is not waited for."""
        if self._worker is not None:
            self._worker.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        while True:
            batch = [await self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get_nowait())
            batch = [request for request in batch if not request.answer.done()]  # a client may have left
            texts = [text for request in batch for text in request.texts]
            if not texts:
                continue
            try:
                found = await asyncio.get_running_loop().run_in_executor(self._thread, self._score, texts)
            except Exception as error:  # one bad batch must not end the server: its clients are told
                _fail(batch, error)
            else:
                _answer(batch, *found)


def make_app(score: ScoreTexts, names: Sequence[str]) -> web.Application:
    """The server's application.

    Args:
        names: of the models, as `extra_logs` and /health show them.
    """
    batcher = ScoreBatcher(score)

    async def get_reward(request: web.Request) -> web.Response:
        texts = _texts(await _body(request))
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
        if error.content_type == "application/json":
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
    return kind(text=json.dumps({"error": reason}), content_type="application/json")


def _plain(values: np.ndarray) -> list[float | None]:
    return [float(value) if math.isfinite(value) else None for value in values]


def _answer(batch: Sequence[_Waiting], rewards: np.ndarray, parts: list[np.ndarray]) -> None:
    start = 0
    for request in batch:
        end = start + len(request.texts)
        if not request.answer.done():
            request.answer.set_result((rewards[start:end], [part[start:end] for part in parts]))
        start = end


def _fail(batch: Sequence[_Waiting], error: Exception) -> None:
    for request in batch:
        if not request.answer.done():
            request.answer.set_exception(error)
