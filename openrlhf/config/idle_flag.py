"""A flag that does nothing in some runs, and the line that says so where it was given in one."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

from openrlhf.config.base import Section
from openrlhf.config.schema import flags, shown, values

Config = TypeVar("Config", bound=Section)
Asked = TypeVar("Asked", contravariant=True)


@dataclass(frozen=True, slots=True)
class Idle(Generic[Asked]):
    """`flags` (or sections, ending in a dot) do nothing while `when` holds."""

    flags: tuple[str, ...]
    when: Callable[[Asked], bool]
    reason: str


def idle_reasons(
    table: Sequence[Idle[Config]], config: Config, harmless: Mapping[str, object] = MappingProxyType({})
) -> dict[str, str]:
    """The flags whose values ask for something that this run does not do, each with the first reason.

    `harmless`: values at which an idle flag asks for nothing, so that nobody is misled.
    """
    seen = values(config)
    found: dict[str, str] = {}
    for idle in table:
        if not idle.when(config):
            continue
        for path in flags(type(config)):
            named = path in idle.flags or path.startswith(tuple(part for part in idle.flags if part.endswith(".")))
            if not named or seen[path] is None or seen[path] == harmless.get(path, object()):
                continue
            found.setdefault(path, idle.reason)
    return found


def idle_lines(reasons: Mapping[str, str], config: Section, given: Set[str]) -> list[str]:
    """One line for each idle flag that was given."""
    seen = values(config)
    return [
        f"--{path} {shown(seen[path])} has no effect: {reason}" for path, reason in reasons.items() if path in given
    ]
