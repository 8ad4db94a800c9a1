"""Asynchronous training with the off-policy correction ends where synchronous training ends: the task of
`test_learning.py`, three seeds of each.

Synchronous scores of these very settings that `test_learning.py` has left in docs/proofs/ are taken from there.
"""

import json
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from statistics import mean, variance

import pytest

from tests.integration.test_learning import LEARNED, scores_of_run
from tests.integration.training import Inputs, rows, write_inputs
from tests.models import make_tiny_llama
from tests.proofs import PROOFS, keep

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(1200)]

SEEDS = (1, 2, 3)
BOUND = 3  # of the staleness
ESTIMATOR = "reinforce_baseline"
AHEAD = {
    "train__async_enable": True,
    "train__async_queue_size": 2,
    "train__max_staleness": BOUND,
    "algo__advantage__is_correction_enable": True,
}
TOKENS = 16 * 8 * 4  # of an evaluation: prompts, samples, tokens of each
T_99 = 4.60  # two-sided 99 % quantile of Student's t with 3 + 3 - 2 degrees of freedom


@dataclass
class Ends:
    """Held-out scores after the last step, of runs that are made when they are asked for."""

    task: Inputs
    folder: Path
    asynchronous: dict[int, float] = field(default_factory=dict)
    synchronous: dict[int, float] = field(default_factory=dict)

    def run(self, name: str, seed: int, **changes: object) -> float:
        _, after = scores_of_run(
            self.task, self.folder / name, algo__advantage__estimator=ESTIMATOR, train__seed=seed, **changes
        )
        return after

    def ahead(self, seed: int) -> float:
        if seed not in self.asynchronous:
            self.asynchronous[seed] = self.run(f"async_{seed}", seed, **AHEAD)
        return self.asynchronous[seed]

    def in_step(self, seed: int) -> float:
        kept = PROOFS / "learning" / f"test_every_estimator_learns[{ESTIMATOR}-1-{seed}]" / "scores.json"
        if seed not in self.synchronous:
            found = json.loads(kept.read_text())["after"] if kept.is_file() else self.run(f"sync_{seed}", seed)
            self.synchronous[seed] = found
        return self.synchronous[seed]


@pytest.fixture(scope="module")
def ends(tmp_path_factory) -> Ends:
    folder = tmp_path_factory.mktemp("async")
    held_out = [f'{{"input": "tell {number}", "label": ""}}\n' for number in range(16)]
    (folder / "held_out.jsonl").write_text("".join(held_out))
    for seed in SEEDS:
        for name in ("async", "sync"):
            (folder / f"{name}_{seed}").mkdir()
    return Ends(write_inputs(folder, make_tiny_llama(folder / "model"), num_prompts=64), folder)


def tolerance(first: list[float], second: list[float]) -> float:
    """How far the means of two samples of three lie apart by chance, in 99 of 100 cases.

    A score is of 512 tokens, so it is never known better than sqrt(p (1 - p) / 512), here with p = 0.98: runs of one
    setting that all end at 1.0 would else leave no room for a single wrong token.
    """
    spread = sqrt((variance(first) + variance(second)) / 2)
    return T_99 * max(spread, sqrt(0.98 * 0.02 / TOKENS)) * sqrt(1 / len(first) + 1 / len(second))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_is_ahead_of_its_training_learns(ends, seed):
    after = ends.ahead(seed)
    steps = [row for row in rows(ends.folder / f"async_{seed}" / "run") if row["step"] > 0]
    stale = [row["async/staleness_max"] for row in steps]
    facts = {"after": round(after, 4), "staleness_max": max(stale), "steps": len(steps)}
    (ends.folder / "scores.json").write_text(json.dumps(facts) + "\n")
    keep(f"async/seed_{seed}", [ends.folder / "scores.json"])
    assert after >= LEARNED
    assert 0 < max(stale) <= BOUND
    assert min(row["train/is_ess"] for row in steps) < 0.99  # there was something to correct


@pytest.mark.timeout(6 * 1200)
def test_it_ends_where_a_synchronous_run_ends(ends):
    asynchronous, synchronous = [ends.ahead(seed) for seed in SEEDS], [ends.in_step(seed) for seed in SEEDS]
    apart, allowed = mean(asynchronous) - mean(synchronous), tolerance(asynchronous, synchronous)
    facts = {
        "asynchronous": asynchronous,
        "synchronous": synchronous,
        "difference of the means": round(apart, 4),
        "within noise": round(allowed, 4),
    }
    (ends.folder / "comparison.json").write_text(json.dumps(facts, indent=1) + "\n")
    keep("async/comparison", [ends.folder / "comparison.json"])
    assert abs(apart) <= allowed
