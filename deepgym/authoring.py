"""Making an environment of one's own, and checking that it can be trusted as a reward.

`deepgym new` calls `create_environment`, `deepgym check` calls `check_environment`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deepgym.core import DeepGym
from deepgym.exceptions import EnvironmentDefinitionError
from deepgym.folder import NAME, EnvironmentFolder
from deepgym.grading import hidden_cases
from deepgym.models import Environment, Kind

REPEATS = 3  # runs of the reference that have to agree
SEEDS = (0, 1, 2)
CONSTANT_LIMIT = 0.1  # the most that `constant*`, `empty*` and `stub*` answers may earn
WRONG_LIMIT = 0.5  # what every other wrong answer stays below
_CONSTANT_NAMES = ("constant", "empty", "stub")

_MANIFEST = """title = "{title}"
kind = "{kind}"
language = "{language}"
entry = "{entry}"
difficulty = "easy"
domain = "general"
tags = []

[limits]
cpu_seconds = 2.0

# A group earns its weight when all its cases pass; the weights sum to 1.
[groups]
small = 0.4
edges = 0.6
"""

_VERIFIER = '''"""What the judge knows. Nothing here runs the answer; it makes inputs and compares data."""

import random

from deepgym.compare import {compare}
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome


def total(numbers: list[int]) -> int:
    return sum(numbers)


def case(name: str, group: str, numbers: list[int], hidden: bool = True) -> Case:
    """One test: the input enters the sandbox, the expected output stays here."""
{make}


def examples() -> list[Case]:
    """Shown in the task text."""
    return [case("example 1", "small", [1, 2, 3], hidden=False)]


def cases(rng: random.Random) -> list[Case]:
    """The hidden cases; other seeds give others."""
    made = [case(f"small {{i}}", "small", [rng.randint(-9, 9) for _ in range(5)]) for i in range(5)]
    return [*made, case("none", "edges", []), case("one", "edges", [rng.randint(1, 99)])]


def judge(case: Case, outcome: StepOutcome) -> bool | float:
    """The score of one case in [0, 1]. Must not raise, whatever the answer produced."""
    return {judge}
'''

_TASKS = {
    "function": "Write `total(numbers)`, which returns the sum of a list of integers (0 for an empty list).\n",
    "program": "The input is a line of integers, separated by spaces; it may be empty. Print their sum.\n",
    "files": "The working directory holds `numbers.txt`, one integer a line, or none. Write a Bash script\n"
    "`solution.sh` that prints their sum.\n",
}
_MAKE = {
    "function": "    return Case(name, total(numbers), args=(numbers,), group=group, hidden=hidden)",
    "program": '    stdin = " ".join(map(str, numbers)) + "\\n"\n'
    "    return Case(name, str(total(numbers)), stdin=stdin.encode(), group=group, hidden=hidden)",
    "files": '    text = "".join(f"{number}\\n" for number in numbers)\n'
    '    files = {"numbers.txt": text.encode()}\n'
    "    return Case(name, str(total(numbers)), files=files, group=group, hidden=hidden)",
}
_REFERENCES = {
    "function": "def total(numbers):\n    return sum(numbers)\n",
    "program": "import sys\n\nprint(sum(map(int, sys.stdin.read().split())))\n",
    "files": "awk '{ total += $1 } END { print total + 0 }' numbers.txt\n",
}
_OFF_BY_ONE = {
    "function": "def total(numbers):\n    return sum(numbers) + 1\n",
    "program": "import sys\n\nprint(sum(map(int, sys.stdin.read().split())) + 1)\n",
    "files": "awk '{ total += $1 } END { print total + 1 }' numbers.txt\n",
}
_ENTRIES = {"function": "total", "program": "solution.py", "files": "solution.sh"}


def create_environment(parent: Path | str, name: str, kind: Kind = "function") -> Path:
    """Write a small, working environment to `parent/name` for the author to change; return its folder.

    Raises EnvironmentDefinitionError when the name cannot be used, or the folder exists or cannot be written.
    """
    folder = Path(parent) / name
    if not NAME.match(name):
        raise EnvironmentDefinitionError(f"{name!r}: a name is lower case letters, digits and '_', at most 64")
    if kind not in _TASKS:
        raise EnvironmentDefinitionError(f"kind is {kind!r}; choose {', '.join(_TASKS)}")
    if folder.exists():
        raise EnvironmentDefinitionError(f"{folder} exists")
    function = kind == "function"
    suffix = "sh" if kind == "files" else "py"
    compare = "same_data" if function else "stdout_is"
    judge = "same_data(outcome.value, case.expected)" if function else "stdout_is(outcome, case.expected)"
    texts = {
        "env.toml": _MANIFEST.format(
            title=name.replace("_", " ").capitalize(),
            kind=kind,
            language="shell" if kind == "files" else "python",
            entry=_ENTRIES[kind],
        ),
        "task.md": _TASKS[kind],
        "verifier.py": _VERIFIER.format(compare=compare, judge=judge, make=_MAKE[kind]),
        f"reference.{suffix}": _REFERENCES[kind],
        f"wrong/off_by_one.{suffix}": _OFF_BY_ONE[kind],
    }
    try:
        for path, text in texts.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise EnvironmentDefinitionError(f"{folder}: cannot be written: {error.strerror}") from error
    return folder


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `check_environment` found."""

    name: str
    problems: tuple[str, ...]
    scores: Mapping[str, float]  # answer -> score

    @property
    def ok(self) -> bool:
        return not self.problems


def check_environment(dg: DeepGym, folder: EnvironmentFolder) -> CheckReport:
    """Run an environment's answers and say what makes it a bad reward.

    The reference scores 1.0, three times and with other seeds; the seeds give different cases; answers that are empty,
    do nothing or always say the same earn 0; the author's wrong answers stay below their limits.

    Raises EnvironmentDefinitionError for a folder that cannot be read, VerifierError and SandboxError from the runs.
    """
    env, reference = folder.environment(), folder.reference()
    problems: list[str] = []
    scores: dict[str, float] = {}
    for label, run in _reference_runs(env):
        result = dg.run(run, reference)
        scores[label] = result.score
        if not result.passed:
            failed = next(case for case in result.cases if not case.passed)
            problems.append(f"{label} scores {result.score:.3f}: case {failed.name!r}: {failed.detail}")
    shown = dg.run(env, reference, cases="shown")
    if not shown.passed:
        problems.append("the reference does not pass the examples of the task text")
    if hidden_cases(env) == hidden_cases(env.with_seed(1)):
        problems.append("the seed changes nothing: seeds 0 and 1 give the same cases")
    for name, answer, limit in _weak_answers(env, folder):
        result = dg.run(env, answer)
        scores[name] = result.score
        if result.passed or result.score > limit:
            problems.append(f"{name} earns {result.score:.3f}, allowed is at most {limit:.2f}")
    return CheckReport(env.name, tuple(problems), scores)


def _reference_runs(env: Environment) -> list[tuple[str, Environment]]:
    """The same run three times, then other seeds."""
    repeats = [(f"reference, run {i + 1}", env) for i in range(REPEATS)]
    return repeats + [(f"reference, seed {seed}", env.with_seed(seed)) for seed in SEEDS[1:]]


def _weak_answers(env: Environment, folder: EnvironmentFolder) -> list[tuple[str, str, float]]:
    """(name, answer, highest score allowed) of the answers that must fail."""
    answers = [(f"generated: {name}", answer, 0.0) for name, answer in stub_answers(env).items()]
    for name, answer in folder.wrong().items():
        limit = CONSTANT_LIMIT if name.startswith(_CONSTANT_NAMES) else WRONG_LIMIT - 1e-9
        answers.append((f"wrong/{name}", answer, limit))
    return answers


def stub_answers(env: Environment) -> dict[str, str]:
    """Answers that do no work: nothing at all, a stub, the constants a lazy policy tries first."""
    answers = {"empty": "", "comment": "# to do\n"}
    if env.answer == "bundle":
        return answers | {"empty file": f"=== {env.entry} ===\n"}
    if env.kind == "function":
        stub = f"def {env.entry}(*args, **kwargs):\n    return "
        return answers | {
            f"always {value}": f"{stub}{value}\n" for value in ("None", "0", "True", "[]", "''", "args[0]")
        }
    printed = "print({!r})\n" if env.language == "python" else "echo {!r}\n"
    return answers | {f"prints {text!r}": printed.format(text) for text in ("", "0", "yes")}
