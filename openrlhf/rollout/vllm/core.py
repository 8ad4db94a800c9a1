"""The core process of an engine, which vLLM spawns: it imports everything anew."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from openrlhf.rollout.vllm.environment import silence_import


@contextmanager
def quick_core() -> Iterator[None]:
    """Core processes that are spawned in the block begin with `_begin`: before vLLM, which they then import."""
    from vllm.v1.engine.core import EngineCoreProc

    theirs = EngineCoreProc.run_engine_core
    EngineCoreProc.run_engine_core = _Core(theirs)
    try:
        yield
    finally:
        EngineCoreProc.run_engine_core = staticmethod(theirs)


class _Core:
    """The target of such a process. A spawned process unpickles its target before its arguments, and only those need
    vLLM. A forked process, which vLLM may take outside of Ray on a GPU, has its modules and calls theirs."""

    def __init__(self, theirs: Callable[..., None]) -> None:
        self._theirs = theirs

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        return _begin, ()

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self._theirs(*args, **kwargs)


def _begin() -> Callable[..., None]:
    """In the spawned process. Its modules stay: collecting while they are imported costs a quarter of that time."""
    gc.disable()
    silence_import()
    return _run


def _run(*args: Any, **kwargs: Any) -> None:
    gc.enable()
    from vllm.v1.engine.core import EngineCoreProc

    EngineCoreProc.run_engine_core(*args, **kwargs)
