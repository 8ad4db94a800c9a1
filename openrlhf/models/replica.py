"""A frozen model, whole on every rank: no process group, no engine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel


class ReplicaBackend:
    """Runs a model forward only (see `ScoringBackend`).

    Args:
        runner: what is run, where that is not the model itself (see `models/value.py`).
        offload: the weights stay in CPU memory but inside `loaded`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        device: torch.device,
        *,
        runner: torch.nn.Module | None = None,
        offload: bool = False,
    ) -> None:
        self.model = model.eval().requires_grad_(False)
        self.device = device
        self._runner = runner or model
        self._offload = offload
        self._runner.to("cpu" if offload else device)

    def outputs(self, **inputs: Any) -> Any:
        return self._runner(**inputs, use_cache=False)

    @contextmanager
    def loaded(self) -> Iterator[None]:
        """The weights are on the device inside this block."""
        if not self._offload:
            yield
            return
        self._runner.to(self.device)
        try:
            yield
        finally:
            self._runner.to("cpu")
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
