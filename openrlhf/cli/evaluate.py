"""Evaluate a model, or a served endpoint, on datasets: single responses, agents, or environments with tools.

    python3 -m openrlhf.cli.evaluate --actor.model_name_or_path M --eval.dataset D --output_dir O ...
    python3 -m openrlhf.cli.evaluate --endpoint.url http://host:8000/v1 --endpoint.tokenizer M --eval.dataset D ...

Exit codes: 0 it finished, 1 it failed, 2 the command cannot run as given (one line on stderr per problem).
torch and vLLM are imported only once the flags are known to be sound.
"""

import os
import sys
from collections.abc import Sequence

from openrlhf.cli.outcome import EXIT_REFUSED, ExceptionTypes, read_or_refuse, run_to_exit_code
from openrlhf.config.evaluate import EvaluateConfig, parse_evaluate


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, check, and evaluate; returns the exit code."""
    config = read_or_refuse(lambda: parse_evaluate(sys.argv[1:] if argv is None else argv, os.environ))
    if config is None:
        return EXIT_REFUSED
    return run_to_exit_code(lambda: _evaluate(config), _expected_failures)


def _evaluate(config: EvaluateConfig) -> None:
    from openrlhf.pipeline.evaluation.run import evaluate

    evaluate(config, lambda line: print(line, flush=True))


def _expected_failures() -> ExceptionTypes:
    from openrlhf.pipeline.failures import EXPECTED_FAILURES
    from openrlhf.rollout.endpoint import EndpointDown

    return (*EXPECTED_FAILURES, EndpointDown)


if __name__ == "__main__":
    sys.exit(main())
