"""Loading a Python file that a user wrote."""

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from openrlhf.config.disk import exists, expanded, is_file
from openrlhf.faults import describe, is_ctrl_c
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
    except BaseException as error:  # whatever the file's code raises, SystemExit too, is the file's fault
        del sys.modules[name]
        if is_ctrl_c(error):
            raise
        raise failure(f"{kind} file {path}: import failed: {describe(error, path)}") from error
    return module
