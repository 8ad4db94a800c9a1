"""A run between two steps, as it is saved."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from openrlhf.pipeline.work_buffer import Waiting


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What lies outside the worker processes at one moment."""

    state: dict[str, Any]  # Job.state_dict()
    waiting: Sequence[Waiting] = field(default=())  # finished groups that were not trained on yet
