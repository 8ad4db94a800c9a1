"""Finding environments: the built-in ones and those in a user's folders.

A user's folder is either one environment (it has an env.toml) or holds environments as sub-folders.
"""

import difflib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from deepgym.exceptions import EnvironmentDefinitionError, UnknownEnvironmentError
from deepgym.folder import MANIFEST, NAME, EnvironmentFolder
from deepgym.models import Environment

BUILTIN_FOLDER = Path(__file__).parent / "envs"


def load_environment(name: str | Path, *, folders: Sequence[str | Path] = (), seed: int = 0) -> Environment:
    """The environment called `name`, from the built-in ones or `folders`; or the one at the path `name`.

    seed: which set of hidden cases. Raises UnknownEnvironmentError, which lists what exists, and
    EnvironmentDefinitionError for a folder that cannot be used.
    """
    if isinstance(name, str) and not folders and NAME.match(name) and (BUILTIN_FOLDER / name / MANIFEST).is_file():
        builtin = _builtin(name)  # one record per process, so that its hidden cases are made once
        return builtin if seed == 0 else builtin.with_seed(seed)
    return find_folder(name, folders=folders).environment(seed)


def list_environments(folders: Sequence[str | Path] = ()) -> tuple[str, ...]:
    """Names of all environments, sorted."""
    return tuple(sorted(_folders(folders)))


def load_all(folders: Sequence[str | Path] = ()) -> tuple[Environment, ...]:
    """All environments, sorted by name."""
    return tuple(load_environment(name, folders=folders) for name in list_environments(folders))


def find_folder(name: str | Path, *, folders: Sequence[str | Path] = ()) -> EnvironmentFolder:
    """The folder of an environment, by name or path."""
    if isinstance(name, Path) or "/" in name:
        return EnvironmentFolder(name)
    known = _folders(folders)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UnknownEnvironmentError(f"no environment {name!r}.{hint} There are: {', '.join(sorted(known))}")
    return EnvironmentFolder(known[name])


def _folders(extra: Sequence[str | Path]) -> dict[str, Path]:
    """Environment name -> folder. Raises EnvironmentDefinitionError for a name that two folders claim."""
    found: dict[str, Path] = {}
    for parent in (BUILTIN_FOLDER, *map(Path, extra)):
        for path in _environments_in(parent):
            name = path.resolve().name
            if name in found and found[name].resolve() != path.resolve():
                raise EnvironmentDefinitionError(f"two environments are called {name!r}: {found[name]} and {path}")
            found[name] = path
    return found


def _environments_in(parent: Path) -> list[Path]:
    try:
        if not parent.is_dir():
            raise EnvironmentDefinitionError(f"{parent}: no such folder of environments")
        if (parent / MANIFEST).is_file():
            return [parent]
        # A manifest that is no file, such as a link to itself, is left for whoever asks for that environment.
        return sorted(entry.parent for entry in parent.glob(f"*/{MANIFEST}"))
    except (OSError, RuntimeError, ValueError) as exc:  # a name that none can have, a closed folder, a loop of links
        raise EnvironmentDefinitionError(f"{parent}: cannot be read: {exc}") from exc


@cache
def _builtin(name: str) -> Environment:
    return EnvironmentFolder(BUILTIN_FOLDER / name).environment()
