"""TensorBoard events, by the tensorboard package alone: no torch."""

import time
from collections.abc import Mapping

from openrlhf.track.errors import TrackError


class TensorBoardWriter:
    """One scalar per metric; flushed with every step, so that a live TensorBoard follows the run."""

    def __init__(self, folder: str) -> None:
        """Imports tensorboard here: three seconds that other runs do not spend. TrackError if it cannot write."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        try:
            self._events = EventFileWriter(folder)
        except OSError as error:
            raise TrackError(
                f"TensorBoard folder {folder}: {error.strerror}; choose another --logger.tensorboard_dir"
            ) from error

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        event = self._event(wall_time=time.time(), step=step, summary=self._summary(value=values))
        self._events.add_event(event)
        self._events.flush()

    def close(self) -> None:
        self._events.close()
