"""Flags of the math-verify service, from the command line to a checked config."""

from collections.abc import Sequence

from openrlhf.config.command_line import read_command
from openrlhf.config.errors import ConfigError
from openrlhf.config.service import ServiceConfig, counts_below_1, port_problems

PROGRAM = "serve_math_verify"


class ServeMathVerifyConfig(ServiceConfig):
    """Serve the comparison of mathematical answers over HTTP: POST /math_verify, GET /health."""

    port: int = 10008
    """Port to listen on; 0: a free one, which is printed."""
    workers: int | None = None
    """Processes that compare. None: one per CPU, at most 4."""
    cpu_seconds: int = 1
    """CPU time of one comparison; an answer that needs more is wrong."""
    wall_seconds: float = 5.0
    """Time of one comparison on a busy machine; after it there is no verdict. Keep it below the clients' time limit."""
    memory_mb: int = 1024
    """Memory of one comparison; an answer that needs more is wrong."""
    max_waiting: int = 1024
    """Requests that may wait; further ones are refused with status 503, which clients try again."""


def parse_serve_math_verify(argv: Sequence[str]) -> tuple[ServeMathVerifyConfig, tuple[str, ...]]:
    """(config, warnings) of the words after the program's name; ConfigError holds all problems; `--help` exits."""
    config, line = read_command(argv, ServeMathVerifyConfig, PROGRAM)
    if problems := _problems(config):
        raise ConfigError(problems)
    return config, tuple(line.warnings)


def _problems(config: ServeMathVerifyConfig) -> list[str]:
    at_least_1 = {
        "workers": config.workers,
        "cpu_seconds": config.cpu_seconds,
        "memory_mb": config.memory_mb,
        "max_waiting": config.max_waiting,
    }
    problems = [*counts_below_1(at_least_1), *port_problems(config.port)]
    if not 0 < config.wall_seconds < float("inf"):
        problems.append(f"--wall_seconds {config.wall_seconds}: must be over 0")
    return problems
