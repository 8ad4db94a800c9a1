"""Lets torchvision be imported beside a CPU build of torch. A line in a .pth file of .venv loads this in every process.

The registry's torchvision is built for a CUDA torch, so beside a CPU one its compiled operators do not load. It copes
with that, but for two of them, which it describes to torch without looking whether they exist. They are declared here,
without an implementation: image transforms work, which is all that processors of vision-language models use; calling
one of the two is an error. Nothing happens where the operators do load, or where nobody imports torchvision.
"""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

_MODULE = "torchvision.extension"  # loads the operators, and is imported before anything that needs them
_OPERATORS = ("nms", "qnms")
_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_kept: list[object] = []  # declarations live as long as the library object


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: importlib.abc.Loader) -> None:
        self._inner = inner

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        if not module._has_ops():
            _declare()


def _declare() -> None:
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for operator in _OPERATORS:
        library.define(operator + _SIGNATURE)
    _kept.append(library)


sys.meta_path.insert(0, _Finder())
