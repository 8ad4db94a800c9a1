"""What an attack is: a program, the wall that stops it, and how one sees that it got through."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from deepgym.sandbox.base import MIB, Call, Exec, Job, Limits, Step, StepOutcome
from deepgym.sandbox.runner.defences import Defences

BOTH = frozenset({"local", "docker"})
DOCKER = frozenset({"docker"})
_DEFENCES = frozenset(field.name for field in fields(Defences))

# Small enough that a bomb ends soon, large enough for any honest program.
LIMITS = Limits(
    cpu_seconds=2.0,
    wall_seconds=10.0,
    memory_bytes=128 * MIB,
    processes=16,
    open_files=32,
    output_bytes=64 * 1024,
    disk_bytes=8 * MIB,
)
# A limit taken away: far above what any attack here takes.
RAISED: dict[str, Any] = {
    "cpu_seconds": 60.0,
    "wall_seconds": 60.0,
    "memory_bytes": 1024 * MIB,
    "processes": 200,
    "open_files": 200,
    "output_bytes": 4 * MIB,
    "disk_bytes": 64 * MIB,
}

# What every attacking program starts with. `host` tells it more about the host than an attacker would know.
_PRELUDE = """\
import ctypes, errno, json, os, signal, socket, struct, subprocess, sys, threading, time
host = json.load(open("host.json"))
_libc = ctypes.CDLL(None, use_errno=True)

def syscall(name, *arguments):
    number = ctypes.c_long(host["syscalls"][name])
    result = _libc.syscall(number, *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result

def breach(text=""):
    print("BREACH", text, flush=True)

"""


Outcomes = Sequence[StepOutcome]


def says_breach(outcomes: Outcomes) -> bool:
    """The usual sign: the program printed BREACH."""
    return any(b"BREACH" in outcome.stdout for outcome in outcomes)


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack.

    Args:
        walls: what stops it. Names of `Defences` fields are walls to take away together, since each of them holds
            alone; the name of a `Limits` field is a limit to raise. Three more:
            "step_boundary"  `second` is tried in a step of its own; taken away, in the same step
            "single_use"     the program is run in two jobs; taken away, twice in one
            "jail"           taken away, it runs as a plain process
        code: a Python program that calls `breach()` when it got what it wanted.
        as_call: run it as a function of the answer's module, not as a program of its own. Such a process is forked
            from the runner and has not passed through execve, which drops much by itself.
        alone: it may end its job, or leave it changed, so it needs one to itself.
        opens_on: backends where taking these walls away lets it through; elsewhere something more stands behind them.
        cpu_seconds, wall_seconds: where the usual limits do not fit.
        got_through: reads the breach from the outcomes where the program cannot say it.
    """

    name: str
    walls: tuple[str, ...]
    code: str
    second: str | None = None
    as_call: bool = False
    alone: bool = False
    opens_on: frozenset[str] = BOTH
    got_through: Callable[[Outcomes], bool] = says_breach
    collect: tuple[str, ...] = ()
    cpu_seconds: float = LIMITS.cpu_seconds
    wall_seconds: float = LIMITS.wall_seconds

    @property
    def weak_defences(self) -> Defences:
        """The sandbox with this attack's walls away."""
        return Defences(**{name: False for name in self.walls if name in _DEFENCES})

    @property
    def shares_a_job(self) -> bool:
        """Many such attacks are steps of one job, which saves a container for each."""
        return not self.alone and not self.as_call and set(self.walls) <= _DEFENCES

    def jobs(self, host: bytes) -> tuple[Job, ...]:
        """What is run with every wall in place."""
        job = self._job(host, self._steps())
        return (job, job) if "single_use" in self.walls else (job,)

    def jobs_without_walls(self, host: bytes) -> tuple[Job, ...]:
        """What is run, in a sandbox with `weak_defences`, with the walls away."""
        steps = self._steps()
        if "single_use" in self.walls:
            steps = (*steps, *steps)
        if "step_boundary" in self.walls:
            steps = (Exec(("sh", "-c", f"python3 {self.name}.py; python3 second.py")),)
        job = self._job(host, steps)
        # Time always: what is to get through must not fail for a busy machine.
        names = {*self.walls, "cpu_seconds", "wall_seconds"}
        raised = {name: RAISED[name] for name in names if name in RAISED}
        return (replace(job, limits=replace(job.limits, **raised)),)

    def files(self) -> dict[str, bytes]:
        code = "def attack():\n" + textwrap.indent(self.code, "    ") if self.as_call else self.code
        files = {f"{self.name}.py": (_PRELUDE + code).encode()}
        if self.second is not None:
            files["second.py"] = (_PRELUDE + self.second).encode()
        return files

    def step(self) -> Step:
        return Call("attack") if self.as_call else Exec(("python3", f"{self.name}.py"), collect=self.collect)

    def _steps(self) -> tuple[Step, ...]:
        return (self.step(),) if self.second is None else (self.step(), Exec(("python3", "second.py")))

    def _job(self, host: bytes, steps: tuple[Step, ...]) -> Job:
        limits = replace(LIMITS, cpu_seconds=self.cpu_seconds, wall_seconds=self.wall_seconds)
        files = {"host.json": host, **self.files()}
        return Job(files=files, steps=steps, limits=limits, module=f"{self.name}.py" if self.as_call else None)


def shared_job(attacks: Sequence[Attack], host: bytes) -> Job:
    """One job whose steps are these attacks, in order."""
    files = {"host.json": host}
    for attack in attacks:
        files |= attack.files()
    limits = replace(LIMITS, cpu_seconds=RAISED["cpu_seconds"], wall_seconds=RAISED["wall_seconds"])
    return Job(files=files, steps=tuple(attack.step() for attack in attacks), limits=limits)
