"""Many requests at once, and many one after the other, on the local sandbox."""

import asyncio
import time

import aiohttp
import psutil
import pytest
from fastapi import FastAPI

from deepgym import DeepGym, load_environment
from deepgym.integrations.grader import Graded
from deepgym.integrations.openrlhf import DEADLINE_S, create_openrlhf_router
from deepgym.integrations.slots import Slots
from deepgym.registry import find_folder
from deepgym.sandbox.base import Job, JobResult
from deepgym.sandbox.local.sandbox import LocalSandbox
from tests.deepgym_fakes import served
from tests.integration.deepgym.soak import soak

REQUESTS = 512
RUNS_AT_ONCE = 8  # in the sandbox: the slow answers sleep, so more than the machine's cores
RIGHT = find_folder("pair_with_sum").reference()
SLOW = "import time\ntime.sleep(0.3)\ndef pair_with_sum(numbers, target):\n    return 0\n"


class CountingSandbox:
    """A local sandbox that counts the jobs in it."""

    name, isolated = "local", True

    def __init__(self) -> None:
        self._inner = LocalSandbox(RUNS_AT_ONCE)
        self.start, self.close = self._inner.start, self._inner.close
        self.now = self.most = self.jobs = 0

    async def run(self, job: Job) -> JobResult:
        self.now += 1
        self.jobs += 1
        self.most = max(self.most, self.now)
        try:
            return await self._inner.run(job)
        finally:
            self.now -= 1


@pytest.mark.timeout(600)
async def test_512_requests_at_once_half_of_them_slow():
    memory = psutil.Process().memory_info
    sandbox, slots, app = CountingSandbox(), Slots(32), FastAPI()
    most_slots = 0
    with DeepGym(sandbox=sandbox, max_parallel=RUNS_AT_ONCE) as dg:

        def observe(graded: Graded) -> None:
            nonlocal most_slots
            most_slots = max(most_slots, slots.in_use)

        env = load_environment("pair_with_sum")
        router = create_openrlhf_router(env, dg, infra_failure_score="nan", slots=slots, observe=observe)
        app.include_router(router)
        async with served(app) as address, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def post(number: int) -> tuple[float, str | None, float]:
                query = f"p```python\n{SLOW if number % 2 else RIGHT}```"
                start = time.perf_counter()
                async with session.post(
                    f"{address}/reward/score", json={"query": [query], "prompts": ["p"]}
                ) as response:
                    answer = await response.json()
                return answer["rewards"][0], answer["error_types"][0], time.perf_counter() - start

            await asyncio.gather(*(post(number) for number in range(32)))
            before = memory().rss
            answers = await asyncio.gather(*(post(number) for number in range(REQUESTS)))
            grown = memory().rss - before
    late = max(took for *_, took in answers)
    assert late < DEADLINE_S + 5.0
    assert [answer for answer in answers[::2] if answer[:2] != (1.0, None)] == []
    assert [answer for answer in answers[1::2] if answer[0] == 1.0] == []
    assert most_slots == 32
    assert (sandbox.most, sandbox.now) == (RUNS_AT_ONCE, 0)
    assert sandbox.jobs >= 32 + REQUESTS  # one that got no core for its whole time is run once more
    assert grown < 64 * 2**20


@pytest.mark.timeout(900)
def test_nothing_piles_up_over_3000_requests():
    outcome = asyncio.run(soak(requests=3000, warm_up=200))
    assert outcome.faults() == []
    assert set(outcome.seen.values()) == {320}  # every kind, a tenth of 3200
