"""How fast answers are judged, and how much of the machine's work is ours.

    report = asyncio.run(measure(dg, load_environment("coin_change"), reference))
    print(render(report))

An answer's own work is the CPU time that its processes used, from the fork that made them to their end. Ours is all
the other CPU time: this process (cases, protocol, judge) and everything of the jails that is not the answer.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from deepgym.core import DeepGym
from deepgym.models import Environment, RunResult
from deepgym.sandbox.runner.watch import descendants

LEVELS = (1, 8, 64)
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Level:
    """What one number of answers in flight gave. Latencies: hand-over to verdict, waiting for a slot included."""

    in_flight: int
    runs: int
    seconds: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    answer_cpu_ms: float  # per run
    our_cpu_ms: float  # per run
    without_verdict: int

    @property
    def runs_per_second(self) -> float:
        return self.runs / self.seconds

    @property
    def our_share(self) -> float:
        """Of all CPU time, in [0, 1]."""
        return self.our_cpu_ms / max(self.our_cpu_ms + self.answer_cpu_ms, 1e-9)


@dataclass(frozen=True, slots=True)
class BenchReport:
    """All levels, and what is needed to read them."""

    environment: str
    sandbox: str
    isolated: bool
    cores: int
    slots: int
    load: float  # one-minute load average before the first run: what else the machine had to do
    levels: tuple[Level, ...]
    jails_counted: bool  # False: the jails are not this process's children, so "ours" lacks their share


async def measure(
    dg: DeepGym,
    env: Environment,
    answer: str,
    *,
    levels: Sequence[int] = LEVELS,
    seconds: float = 5.0,
) -> BenchReport:
    """Run `answer` over and over, for `seconds` at each number of answers in flight, after a short warm-up.

    Raises:
        SandboxError: in the warm-up; later ones count as runs without a verdict.
    """
    load = os.getloadavg()[0]
    for _ in range(2):
        await asyncio.gather(*(dg.arun(env, answer) for _ in range(2 * dg.max_parallel)))
    measured = tuple([await _measure_level(dg, env, answer, level, seconds) for level in levels])
    return BenchReport(
        environment=env.name,
        sandbox=dg.sandbox_name,
        isolated=dg.isolated,
        cores=len(os.sched_getaffinity(0)),
        slots=dg.max_parallel,
        load=load,
        levels=measured,
        jails_counted=dg.sandbox_name == "local",
    )


async def _measure_level(dg: DeepGym, env: Environment, answer: str, in_flight: int, seconds: float) -> Level:
    latencies: list[float] = []
    results: list[RunResult] = []
    failures = 0
    end = time.perf_counter() + seconds

    async def client() -> None:
        nonlocal failures
        while (started := time.perf_counter()) < end:
            batch = await dg.arun_batch(env, [answer])  # a failure is a result here, not an end
            latencies.append(1000 * (time.perf_counter() - started))
            results.append(batch[0])
            failures += not batch[0].has_verdict

    started, cpu_before = time.perf_counter(), _cpu_seconds()
    await asyncio.gather(*(client() for _ in range(in_flight)))
    elapsed, cpu = time.perf_counter() - started, _cpu_seconds() - cpu_before
    answers = sum(result.cpu_ms for result in results) / len(results)
    p = statistics.quantiles(latencies, n=100, method="inclusive") if len(latencies) > 1 else 99 * latencies
    return Level(
        in_flight=in_flight,
        runs=len(results),
        seconds=elapsed,
        p50_ms=p[49],
        p90_ms=p[89],
        p99_ms=p[98],
        answer_cpu_ms=answers,
        our_cpu_ms=max(0.0, 1000 * cpu / len(results) - answers),
        without_verdict=failures,
    )


def _cpu_seconds() -> float:
    """CPU time so far of this process and of all below it, ended ones that were waited for included."""
    total = time.process_time()
    for pid in descendants(os.getpid()):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue  # it ended; its parent has its time
        total += sum(int(field) for field in fields[11:15]) / _TICK
    return total


def render(report: BenchReport) -> str:
    """A table for people."""
    walls = report.sandbox if report.isolated else f"{report.sandbox}, NOT ISOLATED"
    lines = [
        f"{report.environment} in {walls}: {report.slots} slots on {report.cores} cores, load before {report.load:.1f}",
        f"{'in flight':>9} {'runs':>6} {'runs/s':>8} {'p50 ms':>8} {'p90 ms':>8} {'p99 ms':>8}"
        f" {'answer CPU ms':>14} {'our CPU ms':>11} {'our share':>10}",
    ]
    for level in report.levels:
        lines.append(
            f"{level.in_flight:>9} {level.runs:>6} {level.runs_per_second:>8.1f} {level.p50_ms:>8.1f}"
            f" {level.p90_ms:>8.1f} {level.p99_ms:>8.1f} {level.answer_cpu_ms:>14.1f} {level.our_cpu_ms:>11.1f}"
            f" {level.our_share:>10.0%}"
        )
        if level.without_verdict:
            lines.append(f"{'':>9} {level.without_verdict} of them without a verdict")
    if not report.jails_counted:
        lines.append("our CPU is this process's only: the containers are the engine's children")
    return "\n".join(lines)
