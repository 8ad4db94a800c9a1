"""Options that several commands share, and what they stand for."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deepgym.cli.errors import UsageError
from deepgym.core import DeepGym
from deepgym.models import Environment
from deepgym.registry import load_environment


@dataclass(frozen=True)
class Where:
    """Which environments there are, and where answers run."""

    folder: tuple[Path, ...] = ()
    """Folders of your own environments, beside the built-in ones."""
    mode: Literal["auto", "local", "docker"] = "auto"
    """The sandbox: bubblewrap jails, containers, or what this machine has."""
    parallel: int | None = None
    """Answers that run at once; default: one per core."""
    allow_unisolated: str = ""
    """Lets answers run as plain processes where bubblewrap is missing, if you say:
    "I know that answers can read, change and send everything that I can"."""

    def environment(self, name: str, seed: int = 0) -> Environment:
        return load_environment(name, folders=self.folder, seed=seed)

    def gym(self, environments: Sequence[str] = ()) -> DeepGym:
        """A DeepGym whose answers see none of the user's own environments, neither `folder` nor a path given by name.

        Raises:
            UsageError: options that contradict each other.
            SandboxUnavailableError: the machine has no such sandbox.
        """
        from deepgym.sandbox.auto import make_sandbox

        if self.parallel is not None and self.parallel < 1:
            raise UsageError(f"--parallel {self.parallel}: at least 1 answer has to run at once")
        slots = self.parallel or len(os.sched_getaffinity(0))
        hidden = (*self.folder, *(Path(name) for name in environments if "/" in name))
        try:
            sandbox = make_sandbox(self.mode, slots=slots, allow_unisolated=self.allow_unisolated, hidden=hidden)
        except ValueError as error:
            raise UsageError(str(error)) from error
        return DeepGym(max_parallel=slots, sandbox=sandbox)
