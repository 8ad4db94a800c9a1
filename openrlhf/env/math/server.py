"""An HTTP server that compares mathematical answers, for `--env.verifier.math_port` and anyone else.

    POST /math_verify  {"prompt": text (optional), "response": text, "gold_ans": text or number}  ->  {"score": 1 or 0}
    GET  /health       -> {"status": "ok", "workers": processes, "waiting": requests not answered yet}

What counts as the answer, and when it is right, say `boxed.py` and `grade.py`. No verdict is never a score: status 503
where the machine is too busy or no worker can start (try again), 422 where the request holds no right answer.
"""

import asyncio
import json
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiohttp import web

from openrlhf.env.label import GOLD, gold_of, structure_fault
from openrlhf.env.math.answers import gold_answer, simplify
from openrlhf.env.math.grade import grade
from openrlhf.env.math.pool import ComparePool
from openrlhf.env.workers import WorkerGone

MAX_BODY_BYTES = 100 << 20
EXPECTED = '{"response": text, "gold_ans": text}'


class _Service:
    """Requests wait in threads for a worker of the pool."""

    def __init__(self, pool: ComparePool, max_waiting: int) -> None:
        self._pool = pool
        self._max_waiting = max_waiting
        self._threads = ThreadPoolExecutor(2 * pool.size, thread_name_prefix="math-verify")
        self._waiting = 0

    async def verify(self, request: web.Request) -> web.Response:
        response, gold = _read(await request.read())
        if self._waiting >= self._max_waiting:
            return _refusal(503, f"{self._waiting} requests wait already; try again")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            score = await loop.run_in_executor(self._threads, grade, response, gold, self._pool)
        except WorkerGone as error:
            return _refusal(503, str(error))
        finally:
            self._waiting -= 1
        if math.isnan(score):
            return _refusal(503, "no verdict in time; try again")
        return web.json_response({"score": score})

    async def health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "workers": self._pool.size, "waiting": self._waiting})

    async def close(self, app: web.Application) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._pool.close()


def make_app(pool: ComparePool, max_waiting: int = 1024) -> web.Application:
    """The server's application; it closes the pool when it ends."""
    service = _Service(pool, max_waiting)
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_json_errors])
    app.add_routes([web.post("/math_verify", service.verify), web.get("/health", service.health)])
    app.on_cleanup.append(service.close)
    return app


@web.middleware
async def _json_errors(request: web.Request, handler: Any) -> web.StreamResponse:
    """Every refusal is a short JSON body."""
    try:
        response: web.StreamResponse = await handler(request)
    except _Refused as refused:
        return _refusal(refused.status, refused.reason)
    except web.RequestPayloadError:
        refusal = _refusal(400, "the body does not unpack as its Content-Encoding says")
        refusal.force_close()  # aiohttp gives up a connection with such a body
        return refusal
    except web.HTTPException as error:
        return _refusal(error.status, error.reason)
    return response


class _Refused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def _read(raw: bytes) -> tuple[str, str]:
    """Response and right answer of a request's body."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _Refused(400, f"the body is not JSON; expected {EXPECTED}") from error
    if not isinstance(body, dict) or not isinstance(body.get("response"), str):
        raise _Refused(422, f"'response' must be a text; expected {EXPECTED}")
    gold = gold_of({GOLD: body.get(GOLD)})
    if not simplify(gold_answer(gold)):
        raise _Refused(422, f"'gold_ans' holds no right answer; expected {EXPECTED}")
    fault = structure_fault(gold_answer(gold))
    if fault is not None:
        raise _Refused(422, fault)
    return body["response"], gold


def _refusal(status: int, reason: str) -> web.Response:
    return web.json_response({"error": reason}, status=status)
