"""Do the tasks that prompts name exist, and can they grade the labels? Asked when data is loaded."""

from collections.abc import Iterable
from pathlib import Path

from openrlhf.env.errors import EnvError
from openrlhf.env.label import read_label
from openrlhf.env.legacy import task_reward
from openrlhf.env.reward_config import LABEL_CHECKS, REWARD_CONFIG, check_task
from openrlhf.env.synlogic import judge
from openrlhf.env.synlogic.sources import entry_of, generator_of
from openrlhf.env.verifiers.puzzles import LIMITS, PuzzleVerifier
from openrlhf.env.workers import WorkerGone, WorkerPool
from openrlhf.types import Prompt

SYNLOGIC = "synlogic"


def check_prompts(prompts: Iterable[Prompt]) -> None:
    """EnvError, naming the first prompt at fault, for a name that no registry holds or a label that cannot be graded.

    Of each kind of puzzle one stored answer is put to its check, in a worker process.
    """
    puzzles: dict[str, Prompt] = {}
    for prompt in prompts:
        try:
            _check(prompt)
        except EnvError as error:
            raise EnvError(f"prompt {prompt.prompt_id + 1}: {error}") from error
        if prompt.task == SYNLOGIC:
            puzzles.setdefault(generator_of(read_label(prompt.label)), prompt)
    if puzzles:
        _check_puzzles(puzzles)


def _check(prompt: Prompt) -> None:
    if prompt.task is None:
        return
    check_task(prompt.task)
    task_reward(prompt.task, REWARD_CONFIG[prompt.task])
    if prompt.task in LABEL_CHECKS:
        LABEL_CHECKS[prompt.task](read_label(prompt.label))


def _check_puzzles(puzzles: dict[str, Prompt]) -> None:
    pool = WorkerPool(Path(judge.__file__), "puzzle grading", size=1, limits=LIMITS)
    verifier = PuzzleVerifier(pool)
    try:
        for generator, prompt in puzzles.items():
            entry = entry_of(read_label(prompt.label), prompt.text)
            score = verifier.check(generator, entry["answer"], entry)
            if score is not None and score < 1.0:
                raise EnvError(
                    f"prompt {prompt.prompt_id + 1}: reasoning-gym's check of {generator} gives the label's own answer "
                    f"{score:g}, not 1; 'metadata' and 'gold_ans' must be those that reasoning-gym made"
                )
    except WorkerGone as error:
        raise EnvError(f"task synlogic: {error}") from error
    finally:
        pool.close()
