"""The command line.

    deepgym list                                     the environments
    deepgym run coin_change answer.py                one answer, case by case
    deepgym rows coin_change --output rows.jsonl     a trainer's dataset of its task
    deepgym new my_envs/reverse --kind function      a new environment's folder
    deepgym check my_envs/reverse                    does it judge as it should?
    deepgym serve coin_change --infra_failure_score nan
    deepgym bench                                    runs per second, latencies

Exit codes: 0 done and passed; 1 done, and something did not pass; 2 cannot run as given; 3 no verdict.
"""

import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tyro

from deepgym.cli.errors import EXIT_USAGE, UsageError
from deepgym.exceptions import DeepGymError

PROGRAM = "deepgym"


def commands(wrap: Callable[[Any], Any] = lambda command: command) -> Any:
    """The commands, each of them wrapped: a check of documents parses commands without running them."""
    from deepgym.cli import author, bench, listing, rows, run, serve

    app = tyro.extras.SubcommandApp()
    app.command(name="list")(wrap(listing.list_environments))
    for command in (run.run, rows.rows, author.new, author.check, serve.serve, bench.bench):
        app.command(wrap(command))
    return app


def read(app: Any, argv: Sequence[str] | None) -> Any:
    """Parse and run one command of `app`; what it returned."""
    return app.cli(
        prog=PROGRAM, description=__doc__, args=argv, use_underscores=True, config=(tyro.conf.FlagCreatePairsOff,)
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. What the user can mend is one line on stderr."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a verdict is no reason to stop in an ASCII locale
    try:
        code = read(commands(), argv)
        print(end="", flush=True)  # here, where a full disk still has an exit code of ours; stdout may be closed
    except (UsageError, DeepGymError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EPIPE) or error.filename is not None:
            raise
        print(f"error: the output cannot be written: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes the rest when it ends
        return EXIT_USAGE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return int(code or 0)


def entry() -> None:
    """The console script."""
    sys.exit(main())
