"""The protocol of a place that numbers are sent to, beside metrics.jsonl."""

from collections.abc import Mapping
from typing import Protocol


class MetricsWriter(Protocol):
    def write(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...
