"""Writing a checkpoint of several ranks onto a disk that may be full."""

from typing import Any

from deepspeed.runtime.checkpoint_engine.checkpoint_engine import CheckpointCommitInfo, CheckpointEngine


class PatientWriter(CheckpointEngine):
    """Writes as `writer` does, but an error is remembered in `refused` instead of raised.

    DeepSpeed's ranks meet at a barrier after writing: one that left early, for its disk is full, would keep the others
    there until they time out.
    """

    def __init__(self, writer: CheckpointEngine) -> None:
        super().__init__()
        self.name = writer.name
        self.refused: OSError | RuntimeError | None = None  # RuntimeError: what torch makes of a short write
        self._writer = writer

    def create(self, info: CheckpointCommitInfo) -> None:
        self._writer.create(info)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        try:
            self._writer.makedirs(path, exist_ok=exist_ok)
        except OSError as error:
            self.refused = self.refused or error

    def save(self, state_dict: dict[str, Any], path: str) -> None:
        try:
            self._writer.save(state_dict, path)
        except (OSError, RuntimeError) as error:
            self.refused = self.refused or error

    def load(self, path: str, map_location: Any = None) -> Any:
        return self._writer.load(path, map_location=map_location)

    def commit(self, info: CheckpointCommitInfo) -> Any:
        return self._writer.commit(info)
