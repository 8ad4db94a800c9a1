"""The config as YAML: `--config run.yaml` read, and the resolved config written beside every run."""

import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from openrlhf.config.base import Section
from openrlhf.config.check_words import brief, word_fault
from openrlhf.config.errors import ConfigError
from openrlhf.config.legacy import RENAMED, named
from openrlhf.config.names import nearest
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.schema import Flag, flags, flatten, nest, sections, values
from openrlhf.config.secret import SECRETS, without_login

DERIVED = "derived"  # key of the flags whose values follow from the others
_ODD_NUMBER = re.compile(r"[+-]?0[0-9]|.*[_:]")  # what YAML 1.1 and the command line do not read alike


def to_yaml(config: Section, derived: Collection[str] = ()) -> str:
    """The whole config, secrets left out, in a form that `read_yaml` reads back equal.

    `derived`: flags whose values follow from the others. The file repeats them at its end, so that `--config` works
    them out anew, unless somebody has changed one above.
    """
    flat = {
        path: list(value) if isinstance(value, tuple) else value
        for path, value in values(config).items()
        if path not in SECRETS
    }
    listed = {DERIVED: {path: flat[path] for path in sorted(derived) if path in flat}} if derived else {}
    return yaml.safe_dump(nest(flat) | listed, sort_keys=False)


@cache
def _sections() -> frozenset[str]:
    return frozenset(path for path, _ in sections(PPOConfig)) | {DERIVED}


def _unknown(source: str, key: str) -> str:
    if key in RENAMED:
        return f"{source}: {key} is an old name; write {named(RENAMED[key], dashes='')}"
    if key in _sections():
        return f"{source}: {key} takes keys, not a value"
    parent = next((path for path in flags() if key.startswith(f"{path}.")), None)
    if parent is not None:
        return f"{source}: {parent} takes a value, not keys"
    names = nearest(key, flags())
    return f"{source}: no key {key}" + (f"; nearest: {', '.join(names)}" if names else "")


class _StrictLoader(yaml.SafeLoader):
    """YAML in which a key may stand once (the usual loader takes the last silently), and a number is written as on the
    command line."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        """010, 1_000 and 1:30 are texts, which are judged like words of a command line: YAML 1.1 makes 8, 1000 and 90
        of them. 0x10 and 0b10 say what they are, and stay numbers."""
        tag: str = super().resolve(kind, value, implicit)
        number = tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
        return "tag:yaml.org,2002:str" if number and _ODD_NUMBER.match(value) else tag

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"key {twice[0]} stands twice", node.start_mark)
        for key, (_, value) in zip(keys, node.value, strict=True):
            if isinstance(value, yaml.ScalarNode):
                self._check(str(key), value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Dates and tagged numbers that are none raise a bare ValueError, KeyError or AttributeError in yaml."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError) as error:
            problem = f"written like YAML's type {node.tag.rpartition(':')[2]}, and is none; put quotes around a text"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error

    def _check(self, key: str, value: yaml.ScalarNode) -> None:
        try:
            self.construct_object(value)
        except yaml.constructor.ConstructorError as error:
            raise yaml.constructor.ConstructorError(None, None, f"{key}: {error.problem}", value.start_mark) from error


def _place(error: Exception) -> str:
    """What is wrong with a file and in which line, without the line itself, which may hold a secret."""
    if isinstance(error, RecursionError):
        return "nested too deeply, or holds itself"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.context + ': ' if error.context else ''}{error.problem}"
    return " ".join(str(error).split())


def _leaves(tree: Any) -> int:
    return sum(map(_leaves, tree.values())) if isinstance(tree, dict) else 1


def _load(path: str) -> dict[str, Any]:
    try:
        tree = yaml.load(Path(path).read_text(), _StrictLoader)
        leaves = _leaves(tree)
        flat = flatten(tree) if isinstance(tree, dict) else {}
    except OSError as error:
        raise ConfigError([f"--config {brief(path)}: {error.strerror}"]) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError([f"--config {path}: {_place(error)}"]) from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError([f"--config {path}: holds a {type(tree).__name__}, not keys and values"])
    if len(flat) != leaves:
        raise ConfigError([f"--config {path}: a key stands twice, nested and with dots"])
    return flat


def _shown(key: str, value: Any) -> str:
    if key.startswith(SECRETS):
        return "***"
    # repr() of a number of thousands of digits raises.
    return "" if isinstance(value, int) and abs(value) >= 10**18 else brief(without_login(repr(value)))


def _fault(flag: Flag, value: Any) -> str | None:
    """What pydantic would let pass: true as 1, and texts that the command line refuses."""
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, bool) and flag.kind in ("int", "float"):
            return f"{str(one).lower()} is no {'whole number' if flag.kind == 'int' else 'number'}"
        # 64 bits hold no more; the command line takes as many digits.
        if isinstance(one, int) and abs(one) >= 10**18:
            return "a number has at most 18 digits"
        if isinstance(one, str) and flag.kind != "bool" and (fault := word_fault(flag, one)):
            return fault
    return None


def read_yaml(path: str, *, anew: bool = False) -> PPOConfig:
    """Defaults from a YAML file with nested or dotted keys; ConfigError names every unknown key and wrong value.
    A section without keys, as when they are all commented out, says nothing.

    Values equal to the default count as not given, so a dumped config does not look as if every flag had been typed.
    `anew`: so do the values that the file says followed from others, where they are as it says.
    """
    prefix, missing = f"{DERIVED}.", object()
    loaded = {key: value for key, value in _load(path).items() if value is not None or key not in _sections()}
    followed = {key.removeprefix(prefix): loaded.pop(key) for key in list(loaded) if key.startswith(prefix)}
    flat = {
        key: None if value == "None" else value
        for key, value in loaded.items()
        if not (anew and followed.get(key, missing) == value)
    }
    problems = [_unknown(path, key) for key in flat if key not in flags()]
    known = {key: value for key, value in flat.items() if key in flags()}
    faults = {key: fault for key, value in known.items() if (fault := _fault(flags()[key], value))}
    for key, fault in faults.items():
        problems.append(f"{path}: {key} {_shown(key, known[key])}: {fault}")
    try:
        config = PPOConfig.model_validate(nest({key: value for key, value in known.items() if key not in faults}))
    except ValidationError as error:
        for wrong in error.errors():
            key = ".".join(str(part) for part in wrong["loc"])
            problems.append(f"{path}: {key} {_shown(key, wrong['input'])}: {wrong['msg']}")
    if problems:
        raise ConfigError(problems)
    read = values(config)
    return PPOConfig.model_validate(nest({key: read[key] for key in known if read[key] != flags()[key].default}))
