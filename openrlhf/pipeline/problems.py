"""What is wrong with the inputs of a command, all of it, before any process starts."""

from collections.abc import Callable
from typing import TypeVar

from openrlhf.config.errors import ConfigError
from openrlhf.data.errors import DataError
from openrlhf.env.errors import EnvError
from openrlhf.models.errors import ModelError
from openrlhf.reward.errors import RewardError
from openrlhf.rollout.errors import AgentError

_T = TypeVar("_T")


class Problems:
    """Collects one line for each input that cannot be used."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}  # in their order, each once

    def attempt(self, call: Callable[[], _T]) -> _T | None:
        """What the call gives; None where an input is at fault."""
        try:
            return call()
        except (AgentError, DataError, EnvError, ModelError, RewardError) as error:
            self._lines[" ".join(str(error).split())] = None
            return None

    def __bool__(self) -> bool:
        return bool(self._lines)

    def error(self) -> ConfigError:
        """All lines, to be raised."""
        return ConfigError(list(self._lines))
