"""The one error of this room."""

from collections.abc import Sequence


class ConfigError(Exception):
    """The command cannot run as given. `problems` holds one line per problem, all of them at once."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(tuple(problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)
