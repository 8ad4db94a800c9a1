"""Serve the comparison of mathematical answers over HTTP, for the tasks math and math_tir and for evaluation.

    python3 -m openrlhf.cli.serve_math_verify [--port 10008] [--workers 4] ...

Exit codes: 0 stopped by a signal, 1 it failed, 2 the command cannot run as given (one line on stderr per problem), 130
or 143 a signal came before it served.
"""

import sys
from collections.abc import Sequence

from openrlhf.cli.http_service import serve_until_signal
from openrlhf.cli.outcome import EXIT_REFUSED, ExceptionTypes, read_or_refuse, run_to_exit_code
from openrlhf.config.serve_math_verify import ServeMathVerifyConfig, parse_serve_math_verify


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, start a worker, and serve until a signal; returns the exit code."""
    config = read_or_refuse(lambda: parse_serve_math_verify(sys.argv[1:] if argv is None else argv))
    if config is None:
        return EXIT_REFUSED
    return run_to_exit_code(lambda: _serve(config), _expected_failures)


def _serve(config: ServeMathVerifyConfig) -> None:
    from openrlhf.env.math.pool import ComparePool
    from openrlhf.env.math.server import make_app
    from openrlhf.env.workers import Limits

    limits = Limits(config.cpu_seconds, config.wall_seconds, config.memory_mb << 20)
    pool = ComparePool(config.workers, limits)
    pool.start()
    app = make_app(pool, config.max_waiting)
    serve_until_signal(app, config.host, config.port, lambda address: f"math-verify at {address}/math_verify")


def _expected_failures() -> ExceptionTypes:
    from openrlhf.env.workers import WorkerGone

    return (WorkerGone, OSError)  # OSError: the port is taken


if __name__ == "__main__":
    sys.exit(main())
