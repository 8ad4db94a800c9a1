"""Importing torch, Transformers, DeepSpeed and vLLM in less time."""

import gc
from contextlib import ContextDecorator


class HeavyImports(ContextDecorator):
    """Hold back Python's garbage collection, in a `with` block or in the function that this decorates (no coroutine).

    Modules stay for as long as their process does, yet while they are imported the collector goes over all of them
    again and again: it is a quarter of the time that `import vllm` takes.
    """

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *error: object) -> None:
        if self._was_enabled:
            gc.enable()
