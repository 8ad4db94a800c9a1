"""From the way a run ended to an exit code, and one clear line where it failed."""

import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from openrlhf.config.errors import ConfigError

EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_TERMINATED = 128 + signal.SIGTERM

ExceptionTypes = tuple[type[BaseException], ...]
_Config = TypeVar("_Config")


def tell(kind: str, lines: Sequence[str]) -> None:
    """Each line to stderr: `warning: ...`, `error: ...`."""
    for line in lines:
        print(f"{kind}: {line}", file=sys.stderr)


def read_or_refuse(read: Callable[[], tuple[_Config, Sequence[str]]]) -> _Config | None:
    """The config that `read` gives with its warnings, which are told; None where its ConfigError is."""
    try:
        config, warnings = read()
    except ConfigError as error:
        tell("error", error.problems)
        return None
    tell("warning", warnings)
    return config


def run_to_exit_code(job: Callable[[], None], expected: Callable[[], ExceptionTypes]) -> int:
    """Run `job`; failures of the `expected` kinds become one line, others keep their traceback.

    A ConfigError, from inputs that turn out to be wrong once they are opened, is one line per problem.
    Ctrl-C and SIGTERM unwind the job first, so its processes end with it; a second signal does not disturb that.
    `expected` is asked only after a failure: naming the kinds may import much.
    """
    received: list[int] = []
    try:
        with _signals_unwind(received):
            job()
    except KeyboardInterrupt:
        terminated = received[:1] == [signal.SIGTERM]
        print("terminated" if terminated else "interrupted", file=sys.stderr)
        return EXIT_TERMINATED if terminated else EXIT_INTERRUPTED
    except ConfigError as error:
        tell("error", error.problems)
        return EXIT_REFUSED
    except Exception as error:  # the last station: one line where it says everything, else where it comes from
        if isinstance(error, expected()):
            tell("error", [" ".join(str(error).split())])
        else:
            traceback.print_exc()
        return EXIT_FAILED
    return 0


@contextmanager
def _signals_unwind(received: list[int]) -> Iterator[None]:
    """Within the block the first SIGTERM or SIGINT raises KeyboardInterrupt and the following ones are ignored.

    KeyboardInterrupt for both: Ray's waits swallow every other exception of a signal handler and wait on.
    """
    ending = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in ending}

    def unwind(number: int, frame: object) -> None:
        for each in ending:
            signal.signal(each, signal.SIG_IGN)
        received.append(number)
        raise KeyboardInterrupt

    try:
        for number, handler in before.items():
            if handler != signal.SIG_IGN:  # a background job of a shell ignores Ctrl-C, and so must we
                signal.signal(number, unwind)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
