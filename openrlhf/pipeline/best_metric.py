"""Which number of an evaluation says which checkpoint is the best: `--ckpt.best_metric_key`."""

import logging
from collections.abc import Mapping, Sequence

from openrlhf.data.errors import DataError, listing
from openrlhf.pipeline.checkpoint_store import Metric
from openrlhf.types import Prompt

ALWAYS = ("response_length_mean", "truncated_rate", "num_samples", "ungraded_rate", "seconds")  # after `eval_`
logger = logging.getLogger(__name__)


def pass_name(datasource: str, n: int) -> str:
    """The name of the mean over a source's prompts of the best of n samples; of their mean where n is 1."""
    return f"eval_{datasource}_pass{n}"


def pass_names(prompts: Sequence[Prompt], n: int) -> list[str]:
    """The names of the scores of an evaluation of these prompts with n samples each."""
    sources = sorted({prompt.datasource for prompt in prompts})
    return [pass_name(source, k) for source in sources for k in sorted({1, n})]


def check_best_metric(key: str, prompts: Sequence[Prompt], n: int) -> None:
    """Whether an evaluation of these prompts with n samples each can give it; every key is where none is named.

    Raises:
        DataError: it cannot; names what it gives.
    """
    possible = pass_names(prompts, n) + [f"eval_{name}" for name in ALWAYS]
    if key not in ("", "none", *possible):
        raise DataError(f"--ckpt.best_metric_key {key}: no evaluation gives it; choose one of {listing(possible, 24)}")


def rating(key: str, evaluation: Mapping[str, float]) -> Metric | None:
    """The metric of this evaluation by which its checkpoint is rated; None: not evaluated, not wanted, or not there,
    as when no sample of its source has a verdict."""
    if key == "none" or not evaluation:
        return None
    name = key or min((name for name in evaluation if name.endswith("_pass1")), default="")
    if name in evaluation:
        return Metric(name, evaluation[name])
    if key:
        found = ", ".join(sorted(evaluation))
        logger.warning("--ckpt.best_metric_key %s: this evaluation gives only %s; its step is not rated", key, found)
    return None
