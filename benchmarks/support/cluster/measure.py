"""Make the measurements: asynchronous runs of several queue sizes on this machine, and its engine by itself."""

import asyncio
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from ..small_run import PROMPTS, SAMPLES, make_model, run, write_prompts
from .measured import Measured, Run, step_of

DELAY = (1.0, 10.0)  # seconds between a sample and its reward; long, so that other work on the machine shows little
GRADERS = 32  # calls of a reward function that an engine has at work at once (reward/python_function.py)
COUNTS = (1, 8, 32, 64)  # requests in flight
TOKENS = 16
ENVIRONMENT = f"""
import asyncio
import random

async def reward_func(queries, prompts, labels):
    await asyncio.sleep(random.uniform(*{DELAY}))
    return [sum(character.isdigit() for character in query) / len(query) for query in queries]
"""


def measure(queue_sizes: Sequence[int], steps: int) -> Measured:
    """A run per queue size, side by side, so that other work on the machine shows in all of them; some minutes.

    `steps`: of a run with queue size 1; longer queues make so many more steps in the same time.
    """
    machine = f"{len(os.sched_getaffinity(0))} cores of {platform.machine()}, random Llama of 0.4 M parameters, fp32"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_model(folder / "model")
        write_prompts(folder / "prompts.jsonl", PROMPTS * (steps + 1) * max(queue_sizes))
        (folder / "environment.py").write_text(ENVIRONMENT)
        with ThreadPoolExecutor(len(queue_sizes)) as side_by_side:
            pending = []
            for size in queue_sizes:
                pending.append(side_by_side.submit(_measure_run, folder, size, steps * size))
                _wait_for_first_step(folder, size, pending[-1])
            runs = tuple(run.result() for run in pending)
        lengths = _lengths(folder / f"queue{queue_sizes[0]}")
        decoding = asyncio.run(_measure_decoding(folder / "model"))
    return Measured(machine, PROMPTS, SAMPLES, DELAY, GRADERS, lengths, decoding, runs)


def _wait_for_first_step(folder: Path, queue_size: int, running: "Future[Run]") -> None:
    """Runs that start all at once are slow to start."""
    while not (folder / f"queue{queue_size}/metrics.jsonl").exists() and not running.done():
        time.sleep(0.5)


def _measure_run(folder: Path, queue_size: int, steps: int) -> Run:
    flags = {
        "--reward.remote_url": folder / "environment.py",
        "--train.async_enable": None,
        "--train.async_queue_size": queue_size,
        "--rollout.max_new_tokens": TOKENS,
        "--train.micro_batch_size": PROMPTS * SAMPLES,
        "--logger.num_rollouts_stored": PROMPTS * SAMPLES,
    }
    rows = run(f"queue{queue_size}", folder, steps, flags)
    return Run(queue_size, tuple(step_of(row) for row in rows))


def _lengths(output: Path) -> tuple[int, ...]:
    """Sampled tokens of the samples that the run has stored."""
    from openrlhf.track.rollout_file import stored_samples

    samples = stored_samples(output / "rollouts")
    return tuple(sum(sum(segment["action_mask"]) for segment in sample["segments"]) for sample in samples)


async def _measure_decoding(model: Path) -> tuple[tuple[int, float], ...]:
    """Seconds per token while so many requests are decoded together, the fastest of three goes."""
    from openrlhf.config.rollout import VllmConfig
    from openrlhf.rollout.vllm.environment import engine_environment

    os.environ.update(engine_environment("cpu", threads=1))
    from openrlhf.rollout.vllm.args import VllmEngineArgs
    from openrlhf.rollout.vllm.engine import VllmEngine
    from openrlhf.types import SamplingParams

    engine = VllmEngine(VllmEngineArgs(str(model), VllmConfig(dtype="fp32", cpu_kv_cache_gb=1), "cpu", 128, 120))
    await engine.start()
    found = []
    for count in COUNTS:
        goes = []
        for _ in range(4):  # the first warms up
            start = time.perf_counter()
            params = SamplingParams(max_tokens=TOKENS, min_tokens=TOKENS)
            await asyncio.gather(*(engine.generate([10, 20, 30 + i % 60], params) for i in range(count)))
            goes.append((time.perf_counter() - start) / TOKENS)
        found.append((count, min(goes[1:])))
    engine.shutdown()
    return tuple(found)
