"""Puzzles of reasoning-gym, checked by the real package in its worker processes."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from openrlhf.env.check import check_prompts
from openrlhf.env.errors import EnvError
from openrlhf.env.synlogic import judge
from openrlhf.env.verifiers.puzzles import PuzzleVerifier
from openrlhf.env.workers import Limits, WorkerPool
from openrlhf.reward.user_file import load_module
from openrlhf.types import Prompt

pytestmark = pytest.mark.timeout(300)

EXAMPLE = Path(__file__).parents[2] / "examples/puzzles/make_data.py"
GAME = {"numbers": [1, 2, 3, 4], "source_dataset": "puzzle24"}


@pytest.fixture(scope="module")
def verifier():
    pool = WorkerPool(Path(judge.__file__), "puzzle grading", size=1, limits=Limits(2, 30.0, 2 << 30))
    yield PuzzleVerifier(pool)
    pool.close()


def test_the_rows_of_the_example_can_be_graded():
    rows = load_module(EXAMPLE).make_rows(size=2, seed=1)
    prompts = [Prompt(i, row["prompt"], row["label"], task="synlogic") for i, row in enumerate(rows)]
    assert len(prompts) == 4
    check_prompts(prompts)
    label = json.loads(prompts[1].label)
    broken = replace(prompts[1], label=json.dumps(label | {"data_source": "reasoning_gym/sudoku"}))
    with pytest.raises(EnvError, match=r"prompt 2: reasoning-gym's check of sudoku gives the label's own answer 0"):
        check_prompts([prompts[0], broken])


@pytest.mark.parametrize(
    ("answer", "score"),
    [("1*2*3*4", 1.0), ("1+2+3+4", 0.01), ("__import__('os')._exit(3)", 0.01), ("9**9**9**9", 0.0)],
)
async def test_answers_good_bad_and_hostile(verifier, answer, score):
    entry = {"question": "Make 24.", "answer": "4*3*2*1", "metadata": GAME}
    started = time.monotonic()
    assert await verifier.verify("puzzle24", answer, entry) == pytest.approx(score, abs=0.01)
    assert time.monotonic() - started < 60
    assert await verifier.verify("chain_sum", "3", {"question": "", "answer": "3", "metadata": {}}) == 1.0
