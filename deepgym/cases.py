"""What a case must be by itself; how the cases of an environment fit together is `deepgym.grading`'s to check."""

import json
from collections.abc import Iterable
from typing import Any

from deepgym.models import Case
from deepgym.sandbox.base import check_relative_path


def faults_of(cases: Iterable[Any]) -> str:
    """What keeps these from being run, in words for the verifier's author; empty if nothing does."""
    faults = [fault for fault in map(_fault_of, cases) if fault is not None]
    return "; ".join(faults[:5])


def _fault_of(case: Any) -> str | None:
    if not isinstance(case, Case):
        return f"a case is of type {type(case).__name__}, not Case"
    if not isinstance(case.name, str) or not isinstance(case.group, str):
        return f"case {case.name!r}: name and group are text"
    if not all(isinstance(field, tuple | list) for field in (case.args, case.argv, case.collect)):
        return f"case {case.name!r}: args, argv and collect are tuples"
    try:
        json.dumps([case.args, dict(case.kwargs)])  # they travel to the answer as JSON
        dict(case.files)
        for path in (*case.files, *case.collect):
            check_relative_path(path)
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        return f"case {case.name!r}: {error}"
    if not isinstance(case.stdin, bytes) or not all(isinstance(data, bytes) for data in case.files.values()):
        return f"case {case.name!r}: stdin and what files hold are bytes"
    if not all(isinstance(word, str) for word in case.argv):
        return f"case {case.name!r}: argv holds text only"
    return None
