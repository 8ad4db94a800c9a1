"""deepgym bench"""

import asyncio
from typing import Annotated

import tyro

from deepgym.bench import LEVELS, measure, render
from deepgym.cli.errors import EXIT_NO_VERDICT, UsageError
from deepgym.cli.options import Where
from deepgym.registry import find_folder


def bench(
    environment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENVIRONMENT")] = "coin_change",
    in_flight: tuple[int, ...] = LEVELS,
    seconds: float = 5.0,
    where: Annotated[Where, tyro.conf.arg(name="")] = Where(),  # noqa: B008 (frozen)
) -> int:
    """Run the reference answer again and again; print runs per second, latencies, and what share of the CPU is ours.

    Args:
        environment: Its name, or the path of its folder.
        in_flight: Answers that wait at once, one line for each number.
        seconds: Time for each line.
        where: Which environments there are, and where answers run.
    """
    if min(in_flight, default=0) < 1 or not 0 < seconds < float("inf"):
        raise UsageError("--in_flight takes whole numbers from 1, --seconds a number above 0")
    env = where.environment(environment)
    answer = find_folder(environment, folders=where.folder).reference()
    with where.gym([environment]) as dg:
        report = asyncio.run(measure(dg, env, answer, levels=in_flight, seconds=seconds))
    print(render(report))
    return EXIT_NO_VERDICT if any(level.without_verdict for level in report.levels) else 0
