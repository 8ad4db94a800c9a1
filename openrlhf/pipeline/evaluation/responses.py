"""One line per sample: the response, its verdict, and what went wrong where something did."""

import re
from collections.abc import Mapping
from typing import Any

from openrlhf.types import Rollout, Status

_NUMBER = re.compile(r"\d+(\.\d+)?")


def failure_of(rollout: Rollout, pass_threshold: float) -> str | None:
    """Why a sample did not pass, the nearest cause first; None where it did.

    no verdict: ...    nobody knows how good it is; not counted in any rate
    broken: ...        the answer itself broke
    truncated          it ran out of tokens
    code errors        every program that it ran failed
    wrong              anything else
    """
    outcome = rollout.outcome
    if outcome.status is Status.UNGRADED:
        return f"no verdict: {_kind(outcome.reason)}"
    if outcome.score > pass_threshold:
        return None
    if outcome.status is Status.FAILED:
        return f"broken: {_kind(outcome.reason)}"
    if rollout.truncated:
        return "truncated"
    logs = outcome.extra_logs
    if 0 < logs.get("code_runs", 0) <= logs.get("code_errors", 0):
        return "code errors"
    return "wrong"


def response_row(rollout: Rollout, failure: str | None) -> Mapping[str, Any]:
    """The sample as a line of responses.jsonl."""
    prompt, outcome = rollout.prompt, rollout.outcome
    graded = outcome.status is not Status.UNGRADED
    return {
        "datasource": prompt.datasource,
        "prompt_id": prompt.prompt_id,
        "sample": rollout.sample_id,
        "prompt": prompt.text,
        "label": prompt.label,
        "task": prompt.task,
        "env_func": prompt.env_func,
        "response": rollout.response_text,
        "score": outcome.score if graded else None,
        "reward": outcome.reward if graded else None,
        "status": outcome.status.value,
        "failure": failure,
        "reason": outcome.reason,
        "truncated": rollout.truncated,
        "response_length": rollout.num_actions,
        "total_length": sum(len(segment.token_ids) for segment in rollout.segments),
        "turns": sum(len(segment.turns) for segment in rollout.segments),
        "extra_logs": dict(outcome.extra_logs),
    }


def _kind(reason: str) -> str:
    """A reason without what differs from sample to sample."""
    return _NUMBER.sub("N", reason)[:120]
