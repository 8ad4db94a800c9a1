"""The flags that a config model stands for, read from its fields.

    ActorConfig.adam.lr: float = 1e-6   ->   Flag("actor.adam.lr", kind="float", arity=1, default=1e-06, ...)

Everything that speaks about flags by name (parsing, planned flags, the reference page, YAML) goes through here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from openrlhf.config.base import Section
from openrlhf.config.ppo import PPOConfig


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: `--{path}` with `arity` values (None: one or more) of one kind."""

    path: str
    kind: Literal["bool", "int", "float", "str"]
    arity: int | None
    choices: tuple[Any, ...]  # empty: any value of the kind
    optional: bool  # takes None
    default: Any
    help: str


def _scalar(annotation: Any) -> tuple[Literal["bool", "int", "float", "str"], tuple[Any, ...]]:
    """(kind, choices) of a type without its None and its tuple."""
    if get_origin(annotation) is Literal:
        choices = get_args(annotation)
        return ("int" if isinstance(choices[0], int) else "str"), choices
    kinds: dict[Any, Literal["bool", "int", "float", "str"]] = {bool: "bool", int: "int", float: "float", str: "str"}
    return kinds[annotation], ()


def _flag(path: str, annotation: Any, default: Any, help_text: str) -> Flag:
    optional = get_origin(annotation) in (Union, UnionType)
    if optional:
        (annotation,) = (part for part in get_args(annotation) if part is not NoneType)
    arity: int | None = 1
    if get_origin(annotation) is tuple:
        parts = get_args(annotation)
        arity = None if parts[-1] is Ellipsis else len(parts)
        annotation = parts[0]
    kind, choices = _scalar(annotation)
    return Flag(path, kind, 0 if kind == "bool" else arity, choices, optional, default, help_text)


def sections(model: type[Section], prefix: str = "") -> Iterator[tuple[str, type[Section]]]:
    """(path, model) of every section, the root with path '' first."""
    yield prefix, model
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from sections(field.annotation, f"{prefix}.{name}" if prefix else name)


@cache
def flags(model: type[Section] = PPOConfig) -> Mapping[str, Flag]:
    """All flags of a command by path, in the order of the models."""
    found = {}
    for prefix, section in sections(model):
        for name, field in section.model_fields.items():
            if not (isinstance(field.annotation, type) and issubclass(field.annotation, Section)):
                path = f"{prefix}.{name}" if prefix else name
                found[path] = _flag(path, field.annotation, field.default, " ".join((field.description or "").split()))
    return found


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{'actor': {'adam': {'lr': 1}}} -> {'actor.adam.lr': 1}."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        flat |= flatten(value, path) if isinstance(value, Mapping) else {path: value}
    return flat


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """{'actor.adam.lr': 1} -> {'actor': {'adam': {'lr': 1}}}."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, leaf = path.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = value
    return tree


def values(config: Section) -> dict[str, Any]:
    """Every flag's value by path."""
    return flatten(config.model_dump())


def given(config: Section) -> frozenset[str]:
    """Paths of the fields that were given, as opposed to left at their default."""
    return frozenset(flatten(config.model_dump(exclude_unset=True)))


def shown(value: Any) -> str:
    """A value as it stands on a command line."""
    return " ".join(str(part) for part in value) if isinstance(value, tuple) else str(value)
