"""The flags of a command line: today's names, one value each, no contradiction. All faults are found, then told.

argv -> flags and values -> today's names -> checked, no contradiction
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import tyro

from openrlhf.config.base import Section
from openrlhf.config.check_words import brief, check_words
from openrlhf.config.errors import ConfigError
from openrlhf.config.legacy import RENAMED, translate
from openrlhf.config.names import nearest
from openrlhf.config.schema import Flag, flags
from openrlhf.config.secret import SECRETS, without_login
from openrlhf.config.tokens import Given, split

_Command = TypeVar("_Command", bound=Section)


@dataclass(frozen=True, slots=True)
class Setting:
    """A flag's value as words: two for a pair, 'True' or 'False' for a boolean. `copy` as in `Given`."""

    flag: Flag
    words: tuple[str, ...]
    typed: str
    copy: bool = False

    def same_value(self, other: "Setting") -> bool:
        if self.flag.kind not in ("int", "float") or "None" in (*self.words, *other.words):
            return self.words == other.words
        number = int if self.flag.kind == "int" else float  # floats hold whole numbers up to 2^53 only
        return list(map(number, self.words)) == list(map(number, other.words))

    def argv(self) -> list[str]:
        """The setting in tyro's notation."""
        if self.flag.kind == "bool":
            parent, dot, leaf = self.flag.path.rpartition(".")
            return [f"--{parent}{dot}{leaf if self.words == ('True',) else 'no-' + leaf}"]
        if len(self.words) == 1:
            return [f"--{self.flag.path}={self.words[0]}"]
        return [f"--{self.flag.path}", *self.words]


def _lookup(name: str, known: Mapping[str, Flag]) -> tuple[Flag | None, bool]:
    """(flag, negated) of a name; `train.no_x` is the negation of the boolean `train.x`."""
    if name in known:
        return known[name], False
    parent, dot, leaf = name.rpartition(".")
    positive = known.get(f"{parent}{dot}{leaf.removeprefix('no_')}")
    if leaf.startswith("no_") and positive is not None and positive.kind == "bool":
        return positive, True
    return None, False


def _unknown(entry: Given, known: Mapping[str, Flag], program: str) -> str:
    names = nearest(entry.name, [*known, *RENAMED])
    meant = [path for name in names for path in RENAMED.get(name, (name,)) if path in known]
    today = [f"--{path}" for path in dict.fromkeys(meant)]
    return f"{entry.typed} is no flag of {program}" + (f"; nearest: {', '.join(today)}" if today else "; see --help")


def _setting(entry: Given, known: Mapping[str, Flag], program: str) -> Setting | str:
    """The setting that an occurrence makes, or what is wrong with it."""
    flag, negated = _lookup(entry.name, known)
    if flag is None:
        return _unknown(entry, known, program)
    words = ("***",) if flag.path in SECRETS else entry.values
    shown = " ".join([entry.typed, *(repr(brief(without_login(word))) for word in words)])
    if flag.kind != "bool":
        fault = check_words(flag, entry.values)
        return f"{shown}: {fault}" if fault else Setting(flag, entry.values, shown, entry.copy)
    if negated and entry.values:
        return f"{shown}: the no- form takes no value"
    truth = entry.truth()
    if truth is None:
        return f"{shown}: no truth value; give the flag alone, or True or False after it"
    return Setting(flag, (str(truth and not negated),), shown, entry.copy)


def _gather(
    found: Sequence[Given], command: type[Section], program: str, warnings: list[str], problems: list[str]
) -> dict[str, Setting]:
    """One setting per flag. Repeats of one value pass with a warning; different values are a problem."""
    settings: dict[str, Setting] = {}
    known = flags(command)
    for entry in found:
        setting = _setting(entry, known, program)
        if isinstance(setting, str):
            problems += [] if entry.copy else [setting]  # told for the first model
            continue
        path = setting.flag.path
        earlier = settings.setdefault(path, setting)
        if earlier is setting:
            continue
        settings[path] = replace(earlier, copy=earlier.copy and setting.copy)
        if earlier.same_value(setting):
            warnings.append(f"--{path} is given twice with the same value ({earlier.typed}, {setting.typed})")
        else:
            problems.append(f"--{path} is given twice with different values: {earlier.typed} and {setting.typed}")
    return settings


@dataclass(frozen=True, slots=True)
class Line:
    """What a command line says: at most one setting per flag."""

    settings: dict[str, Setting]
    warnings: list[str]
    problems: list[str]

    def argv(self) -> list[str]:
        """The settings in tyro's notation."""
        return [word for setting in self.settings.values() for word in setting.argv()]


def read_line(argv: Sequence[str], command: type[Section], program: str) -> Line:
    """Read the words after the program's name as flags of a command's config model."""
    found, stray = split(argv)
    problems = [f"{brief(without_login(word))!r} belongs to no flag; flags start with --" for word in stray]
    known = flags(command)
    found, warnings, faults = translate(found, program, lambda name: _lookup(name, known)[0] is not None)
    problems += faults
    return Line(_gather(found, command, program, warnings, problems), warnings, problems)


def read_command(argv: Sequence[str], command: type[_Command], program: str) -> tuple[_Command, Line]:
    """The config of a command that has no file of defaults, not yet checked, and what its line says.

    ConfigError holds all problems of the words; `--help` prints and exits.
    """
    if {"-h", "--help"} & set(argv):
        tyro.cli(command, args=["--help"], use_underscores=True, prog=program)
    line = read_line(argv, command, program)
    if line.problems:
        raise ConfigError(line.problems)
    return tyro.cli(command, args=line.argv(), use_underscores=True, prog=program), line
