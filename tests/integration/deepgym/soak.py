"""A long stream of mixed requests at a served environment; nothing may pile up in the service.

    python3 -m tests.integration.deepgym.soak --requests 100000        (make soak)

The service is a process of its own with the local sandbox. After a warm-up and at the end, at rest, its processes,
open files and memory are counted over its whole process tree.
"""

import argparse
import asyncio
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import psutil

from tests.integration.deepgym.serving import address_in

ENVIRONMENT = "pair_with_sum"
CLIENTS = 32
JAILS = 4  # they come up as they are needed; so few are all up after the warm-up, on any number of cores
PROGRESS = 5_000  # requests between two lines that say so
REST_SECONDS = 60.0
MEMORY_GROWTH = 32 * 2**20  # of the whole tree, between warm-up and end

PROMPT = "Solve it:\n"
QUICK = "def pair_with_sum(numbers, target):\n    return None\n"
RAISES = "def pair_with_sum(numbers, target):\n    raise ValueError\n"
LEAVES = "import os\nos._exit(3)\n"
DAEMON = f"""
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
        os._exit(0)
{QUICK}"""
FILES = f"""
import os
kept = [os.open("/dev/null", 0) for _ in range(30)]
open("big", "wb").write(bytes(1 << 20))
{QUICK}"""
FLOOD = f"print('x' * 100_000)\n{QUICK}"

# What one request out of ten is, over and over; a body of None leaves before the answer comes.
KINDS = ("quick", "raises", "leaves", "daemon", "files", "flood", "mismatch", "malformed", "gone", "two")
ANSWERS = {"raises": RAISES, "leaves": LEAVES, "daemon": DAEMON, "files": FILES, "flood": FLOOD}


@dataclass
class Usage:
    """Of a process tree, at rest."""

    processes: int
    files: int
    memory: int

    def __str__(self) -> str:
        return f"{self.processes} processes, {self.files} open files, {self.memory / 2**20:.1f} MiB"


@dataclass
class Outcome:
    before: Usage
    after: Usage
    seconds: float
    seen: Counter[str] = field(default_factory=Counter)
    surprises: list[str] = field(default_factory=list)

    def faults(self) -> list[str]:
        faults = list(self.surprises)
        if self.after.processes > self.before.processes:
            faults.append(f"processes grew from {self.before.processes} to {self.after.processes}")
        if self.after.files > self.before.files + 8:  # keep-alive connections come and go
            faults.append(f"open files grew from {self.before.files} to {self.after.files}")
        if self.after.memory > self.before.memory + MEMORY_GROWTH:
            faults.append(f"memory grew from {self.before} to {self.after}")
        return faults


@contextmanager
def service() -> Iterator[tuple[str, psutil.Process]]:
    """`deepgym serve` on a free port: its address and its process."""
    command = [sys.executable, "-m", "deepgym", "serve", ENVIRONMENT, "--infra_failure_score", "nan"]
    command += ["--mode", "local", "--parallel", str(JAILS), "--port", "0"]
    with tempfile.NamedTemporaryFile() as log:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        try:
            yield address_in(Path(log.name), process), psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(60.0)


async def soak(requests: int, warm_up: int) -> Outcome:
    """Raises TimeoutError if the service does not come to rest, RuntimeError if it does not come up."""
    with service() as (address, process):
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=180.0)) as session:
            outcome = Outcome(Usage(0, 0, 0), Usage(0, 0, 0), 0.0)
            await stream(session, address, range(warm_up), outcome)
            outcome.before = await at_rest(session, address, process)
            start = time.perf_counter()
            await stream(session, address, range(requests), outcome)
            outcome.seconds = time.perf_counter() - start
            outcome.after = await at_rest(session, address, process)
    return outcome


async def stream(session: aiohttp.ClientSession, address: str, numbers: range, outcome: Outcome) -> None:
    """One request per number, CLIENTS at once."""
    source = iter(numbers)

    async def client() -> None:
        for number in source:
            if number and number % PROGRESS == 0:
                print(f"{number} of {len(numbers)} requests sent", flush=True)
            kind = KINDS[number % len(KINDS)]
            outcome.seen[kind] += 1
            if (surprise := await request(session, f"{address}/reward/score", kind)) is not None:
                outcome.surprises.append(f"request {number} ({kind}): {surprise}")

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


async def request(session: aiohttp.ClientSession, url: str, kind: str) -> str | None:
    """Send one request; what was wrong with the answer."""
    if kind == "gone":
        try:
            async with asyncio.timeout(0.02), session.post(url, json=body(QUICK)):
                return None
        except TimeoutError:
            return None
    if kind == "malformed":
        async with session.post(url, data=b'{"prompts": ["') as response:
            return None if response.status == 422 else f"status {response.status}"
    sent = (
        {"query": ["x"], "prompts": [PROMPT]}
        if kind == "mismatch"
        else body(*[ANSWERS.get(kind, QUICK)] * (1 + (kind == "two")))
    )
    async with session.post(url, json=sent) as response:
        if response.status != 200:
            return f"status {response.status}"
        answer = await response.json()
    if kind == "mismatch":
        return None if math.isnan(answer["rewards"][0]) else str(answer)
    graded = [reward for reward in answer["rewards"] if not math.isnan(reward)]  # a busy host may give no verdict
    return (
        None
        if all(reward < 1.0 for reward in graded) and len(answer["rewards"]) == len(sent["prompts"])
        else str(answer)
    )


def body(*answers: str) -> dict[str, list[str]]:
    return {"query": [f"{PROMPT}```python\n{answer}```" for answer in answers], "prompts": [PROMPT] * len(answers)}


async def at_rest(session: aiohttp.ClientSession, address: str, process: psutil.Process) -> Usage:
    """The usage once no run is going on."""

    async def idle() -> bool:
        async with session.get(f"{address}/metrics") as response:
            return "deepgym_slots_in_use 0.0" in await response.text()

    await until(idle, REST_SECONDS)
    await asyncio.sleep(1.0)  # what a finished run's end leaves to do
    return usage(process)


def usage(root: psutil.Process) -> Usage:
    found = Usage(0, 0, 0)
    for process in [root, *root.children(recursive=True)]:
        try:
            memory, files = process.memory_info().rss, len(os.listdir(f"/proc/{process.pid}/fd"))
        except (psutil.NoSuchProcess, FileNotFoundError):
            continue
        found = Usage(found.processes + 1, found.files + files, found.memory + memory)
    return found


async def until(condition: Callable[[], Awaitable[bool]], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not await condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not after {seconds:.0f} s")
        await asyncio.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description="A long stream of mixed requests at a served environment.")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--warm_up", type=int, default=300)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwinds, so that the service ends too
    outcome = asyncio.run(soak(options.requests, options.warm_up))
    rate = options.requests / outcome.seconds
    print(f"{options.requests} requests in {outcome.seconds:.0f} s ({rate:.1f}/s): {dict(outcome.seen)}")
    print(f"after the warm-up: {outcome.before}\nat the end:        {outcome.after}")
    for fault in outcome.faults()[:20]:
        print(f"fault: {fault}")
    sys.exit(bool(outcome.faults()))


if __name__ == "__main__":
    main()
