"""Loading a Python file that a user wrote, and saying where in it something went wrong."""

import hashlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from openrlhf.config.disk import exists, expanded, is_file
from openrlhf.reward.errors import RewardError


def load_module(path: Path, kind: str = "reward", failure: type[ValueError] = RewardError) -> ModuleType:
    """Run the file as a module of a name of its own, so that two files called `reward_func.py` do not meet.

    `kind` names the file in messages, `failure` is what is raised.

    As for `python FILE`, its folder comes first on `sys.path` from now on: imports of its siblings work, at the
    top and inside functions.

    Raises:
        failure: no such file; not a `.py` file; its code raised, with the line.
    """
    path = expanded(str(path)).absolute()
    if not is_file(path):
        raise failure(f"{kind} file {path}: {'is a folder' if exists(path) else 'does not exist'}")
    name = f"openrlhf_{kind}_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise failure(f"{kind} file {path}: not a Python file, the name must end in .py")
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    sys.modules[name] = module  # dataclasses and pickle look the module up while it runs
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise failure(f"{kind} file {path}: import failed: {describe(error, path)}") from error
    return module


def describe(error: BaseException, path: Path) -> str:
    """One line: exception type, message, the line of the user's file, and the line that raised if it is elsewhere."""
    message = " ".join(str(error).split())
    text = f"{type(error).__name__}: {message[:300]}" if message else type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{text} at {error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename) == path]
    places = [f"{frame.filename}:{frame.lineno}" for frame in (own[-1:] + frames[-1:])]
    return " ".join([text, *(["at", " <- ".join(dict.fromkeys(reversed(places)))] if places else [])])
