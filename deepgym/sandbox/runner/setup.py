"""What the supervisor is told about a job before its first step."""

from dataclasses import dataclass
from typing import Any

from .defences import Defences


@dataclass(frozen=True, slots=True)
class JailLimits:
    """`deepgym.sandbox.base.Limits`, as numbers that travelled."""

    cpu_seconds: float
    wall_seconds: float
    memory_bytes: int
    processes: int
    open_files: int
    output_bytes: int
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class Setup:
    """The first frame of a job; the answer's files are its blobs."""

    limits: JailLimits
    steps: int
    files: tuple[str, ...]
    module: str | None
    work: str  # an existing, writable, empty folder
    environment: dict[str, str]
    nproc: int | None  # RLIMIT_NPROC of the answer's processes; None: something else bounds them
    own_disk: bool  # work is a file system of its own, so a full one is the answer's doing
    defences: Defences

    @classmethod
    def of(cls, header: dict[str, Any]) -> "Setup":
        """Read the header of the first frame. Raises TypeError or KeyError on another protocol version."""
        values = {**header, "limits": JailLimits(**header["limits"]), "files": tuple(header["files"])}
        return cls(**{**values, "defences": Defences(**header["defences"])})
