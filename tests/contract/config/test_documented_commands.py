"""Public case j1, our half: every train_ppo_ray command of README, docs and example scripts is one that we take."""

import re
import shlex
from pathlib import Path

import pytest

from openrlhf.config.parse import parse_ppo
from openrlhf.config.planned import refused

ROOT = Path(__file__).parents[3]
FILES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("examples/**/*.sh"))]
_COMMAND = re.compile(r"-m openrlhf\.cli\.train_ppo_ray((?:\\\n|[^\n`])*)")
_DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}")
_VARIABLE = re.compile(r"\$(\w+|\{\w+\})")


def words_of(command: str) -> list[str]:
    """The words of a shell command; a variable stands for its default, else for 1."""
    text = command.replace("\\\n", " ").replace('"$@"', "")
    return shlex.split(_VARIABLE.sub("1", _DEFAULT.sub(r"\1", text)), comments=True)


COMMANDS = [
    pytest.param(words, id=f"{file.relative_to(ROOT)}:{number}")
    for file in FILES
    for number, match in enumerate(_COMMAND.finditer(file.read_text()), start=1)
    if (words := words_of(match[1])) and "..." not in words
]


def test_words_of_a_script():
    command = ' \\\n   --a "${M:-x y}" \\\n   --b $N "$@"'
    assert words_of(command) == ["--a", "x y", "--b", "1"]


def test_there_are_commands_to_check():
    assert len(COMMANDS) >= 4


@pytest.mark.parametrize("words", COMMANDS)
def test_a_documented_command_is_taken_without_a_warning(words):
    parsed = parse_ppo(words)
    assert parsed.warnings == ()
    assert refused(parsed.config) == []
