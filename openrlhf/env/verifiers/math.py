"""Is the boxed answer of a response right? Asked of worker processes of this machine, or of a service.

A verdict is 1 (right) or 0 (wrong); None is no verdict: the verifier failed, or the label holds no right answer.
"""

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from openrlhf.config.env import EnvConfig
from openrlhf.env.math.boxed import last_boxed, outside_thinking
from openrlhf.env.math.grade import grade
from openrlhf.env.math.pool import ComparePool
from openrlhf.env.proxy import server_address
from openrlhf.env.verifiers.once import FailureCount
from openrlhf.env.verifiers.post import JsonPost, ServiceDown
from openrlhf.env.workers import WorkerGone


class MathVerifier(Protocol):
    """Compares the last box of a response with the right answer."""

    async def verify(self, prompt: str, response: str, gold: str) -> float | None: ...

    async def close(self) -> None: ...


def make_math_verifier(env: EnvConfig) -> MathVerifier:
    """A service where the flags name one, else worker processes."""
    return ServedMath(env) if env.has_math_service else LocalMath()


class LocalMath:
    """Compares in worker processes (`env/math/pool.py`), started with the first answer that needs one."""

    def __init__(self, pool: ComparePool | None = None) -> None:
        self._pool = pool or ComparePool()
        self._threads = ThreadPoolExecutor(2 * self._pool.size, thread_name_prefix="math")
        self._failures = FailureCount()

    async def verify(self, prompt: str, response: str, gold: str) -> float | None:
        loop = asyncio.get_running_loop()
        try:
            verdict = await loop.run_in_executor(self._threads, grade, response, gold, self._pool)
        except WorkerGone as error:
            self._failures.add("math grading", str(error))
            return None
        if math.isnan(verdict):
            self._failures.add("math grading", "no right answer in the label, or no time to compare")
            return None
        return verdict

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        await asyncio.get_running_loop().run_in_executor(None, self._pool.close)


class ServedMath:
    """Asks `serve_math_verify`, POST /math_verify, or where `math_url` is set another service, POST /verify."""

    def __init__(self, env: EnvConfig, pause_s: float = 1.0) -> None:
        self._env = env
        self._post = JsonPost(env.verifier.math_timeout, env.verifier.max_retries, pause_s)
        self._failures = FailureCount()

    async def verify(self, prompt: str, response: str, gold: str) -> float | None:
        flags = self._env.verifier
        if flags.math_url is None:
            body = {"prompt": prompt, "response": response, "gold_ans": gold}
        else:
            answer = last_boxed(outside_thinking(response))
            if answer is None:
                return 0.0
            body = {"gold": gold, "answer": answer}
        try:
            return self._verdict(await self._post.ask(self._url, body))
        except ServiceDown as error:
            self._failures.add("the math service", str(error))
            return None

    async def close(self) -> None:
        await self._post.close()

    def _url(self) -> str:
        flags = self._env.verifier
        if flags.math_url is not None:
            return f"{flags.math_url.rstrip('/')}/verify"
        return f"{server_address(self._env)}:{flags.math_port}/math_verify"

    def _verdict(self, answer: object) -> float | None:
        flags = self._env.verifier
        score = answer.get(flags.math_key) if isinstance(answer, dict) else None
        if isinstance(score, bool | int | float) and math.isfinite(score):
            return None if score == flags.math_fail_score else float(score)
        self._failures.add("the math service", f"its answer's {flags.math_key!r} is {score!r}")
        return None
