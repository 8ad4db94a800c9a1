"""From the way a run ended to an exit code, and one clear line where it failed."""

import signal
import sys
import traceback
from collections.abc import Callable

EXIT_FAILED = 1
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_TERMINATED = 128 + signal.SIGTERM


class Terminated(BaseException):
    """SIGTERM arrived. Not an Exception, so that it unwinds like Ctrl-C and everything is cleaned up."""


def run_to_exit_code(job: Callable[[], None], expected: tuple[type[BaseException], ...]) -> int:
    """Run `job`; failures of the `expected` kinds become one line, others keep their traceback.

    Ctrl-C and SIGTERM unwind the job first, so its processes end with it.
    """
    signal.signal(signal.SIGTERM, _terminate)
    try:
        job()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Terminated:
        print("terminated", file=sys.stderr)
        return EXIT_TERMINATED
    except expected as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
    except Exception:
        traceback.print_exc()
        return EXIT_FAILED
    return 0


def _terminate(signum: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not break the cleaning up
    raise Terminated
