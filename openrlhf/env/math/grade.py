"""The verdict on a response to a mathematics problem: last box, equal as a string or after math-verify.

Before math-verify compares, `readings.py` writes both answers so that it understands them, and `wording.py` decides
where it would pass over a difference.

right                                                        1
another answer, no answer, one that exhausts its limits      0
no gold answer, one that is a dict or a list of texts as Python or JSON writes it (said once in the log) and
no equal string, or a machine too busy to compare in time    NaN, no verdict
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from openrlhf.env import fork_server
from openrlhf.env.label import structure_fault
from openrlhf.env.math import judge
from openrlhf.env.math.answers import gold_answer, simplify
from openrlhf.env.math.boxed import last_boxed, nesting, outside_thinking
from openrlhf.env.math.pool import ComparePool
from openrlhf.env.math.readings import read
from openrlhf.env.math.wording import verdict_of_wording, without_asides
from openrlhf.env.verifiers.once import FailureCount

# An answer beyond these is right only if it equals the gold answer as a string.
MAX_CHARS = 1000
MAX_NESTING = 32

_VERDICTS = {judge.RIGHT: 1.0, judge.WRONG: 0.0, fork_server.OVERRUN: 0.0, fork_server.LATE: math.nan}
_UNREADABLE = FailureCount()


def grade(response: str, label: str, pool: ComparePool) -> float:
    """1, 0 or NaN. Works in any thread; blocks it at most for the pool's limits.

    Raises:
        workers.WorkerGone: no comparison was possible.
    """
    gold = gold_answer(label)
    answer = last_boxed(outside_thinking(response))
    if not simplify(gold):
        return math.nan
    if answer and simplify(answer) == simplify(gold):
        return 1.0
    fault = structure_fault(gold)
    if fault is not None:
        _UNREADABLE.add("math grading", fault)
        return math.nan
    if not answer:
        return 0.0
    if len(answer) > MAX_CHARS or nesting(answer) > MAX_NESTING:
        return 0.0
    answer, gold = read(answer), read(gold)
    worded = verdict_of_wording(answer, gold)
    if worded is not None:
        return float(worded)
    return _VERDICTS[pool.compare(*without_asides(answer, gold))]


def grade_all(responses: Sequence[str], labels: Sequence[str], pool: ComparePool) -> list[float]:
    """The verdicts in order, as many at a time as the pool has workers."""
    if len(responses) == 1:
        return [grade(responses[0], labels[0], pool)]
    with ThreadPoolExecutor(pool.size) as threads:
        return list(threads.map(grade, responses, labels, [pool] * len(responses)))
