"""The asynchronous pipeline beside the synchronous one: samples per second with an environment that takes its time.

    python3 benchmarks/async_pipeline.py [--steps 12 --queue 2]

Both train the same small random Llama on the same prompts with the same flags (`support/small_run.py`); the reward of a
sample comes 0.2 to 2 s after its last token (`support/slow_environment.py`). The first two steps of each run are not
counted. Beside the ratio stands that of a pipeline whose generation and training overlap wholly,

    ideal = (generate + train) / max(generate, train)

from the phases of the synchronous run; streaming can do better than it, since it does not wait for the slowest sample
of a batch either. The asynchronous run has --train.max_staleness one above its queue size; the script ends with exit
code 1 if any step trained on something older.
"""

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

from support import small_run
from support.machine import ROOT, choose_setting, print_header

TARGET = 1.5
WARM_UP = 2  # steps


def run(name: str, folder: Path, steps: int, flags: Mapping[str, object]) -> list[dict]:
    """Train; return the rows of all steps."""
    environment = {"--reward.remote_url": ROOT / "benchmarks/support/slow_environment.py", "--train.max_epochs": 4}
    return small_run.run(name, folder, steps, environment | flags)


def counted(rows: list[dict]) -> list[dict]:
    """Without the steps that warm up."""
    return [row for row in rows if row["step"] > WARM_UP]


def rate(rows: list[dict]) -> float:
    """Samples per second of wall time."""
    return sum(row["rollout/num_samples"] for row in rows) / sum(row["timing/step_total"] for row in rows)


def mean(rows: list[dict], *names: str) -> float:
    """Mean over steps of the sum of these metrics."""
    return sum(row[f"timing/{name}"] for row in rows for name in names) / len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12, help="rollout steps of each run")
    parser.add_argument("--queue", type=int, default=2, help="--train.async_queue_size")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small_run.make_model(folder / "model")
        small_run.write_prompts(folder / "prompts.jsonl", small_run.PROMPTS * arguments.steps)
        print_header("asynchronous and synchronous", "random Llama", choose_setting("fp32"))
        sync = counted(run("sync", folder, arguments.steps, {}))
        print(f"synchronous    {rate(sync):7.2f} samples/s", flush=True)
        bound = arguments.queue + 1
        ahead = {"--train.async_queue_size": arguments.queue, "--train.max_staleness": bound}
        every_step = run("async", folder, arguments.steps, {"--train.async_enable": None} | ahead)
        asynchronous = counted(every_step)
    generate, train = mean(sync, "generation"), mean(sync, "make_experience", "ppo_train", "broadcast")
    ratio, ideal = rate(asynchronous) / rate(sync), (generate + train) / max(generate, train)
    print(f"asynchronous   {rate(asynchronous):7.2f} samples/s")
    print(f"synchronous step: {generate:.2f} s generating, {train:.2f} s training")
    verdict = "reached" if ratio >= TARGET else "MISSED"
    print(f"ratio {ratio:.2f}, ideal {ideal:.2f}, target {TARGET}: {verdict}")
    oldest = max(row["async/staleness_max"] for row in every_step)
    dropped = sum(row["async/stale_groups"] for row in every_step)
    print(f"staleness at most {oldest:.0f}, bound {bound}; {dropped:.0f} groups dropped for it")
    if oldest > bound:
        raise SystemExit(f"FAULT: a group was trained on {oldest:.0f} updates after it was sampled")


if __name__ == "__main__":
    main()
