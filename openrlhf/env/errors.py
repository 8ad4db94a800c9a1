"""The error of this room: a task, environment or verifier that cannot be used, which ends the run."""

from collections.abc import Iterable


class EnvError(ValueError):
    """One line; names the task, environment or address and the way out.

    A sample without a verdict is no EnvError: it is an UNGRADED outcome (DESIGN rule 1).
    """


def unknown(kind: str, name: str, known: Iterable[str]) -> EnvError:
    """The error for a name that a registry lacks. `kind`: what it should be, with the file where it is registered."""
    return EnvError(f"no {kind} is called {name!r}; known: {', '.join(sorted(known)) or 'none'}")
