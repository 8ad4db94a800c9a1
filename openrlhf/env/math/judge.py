"""Compares answers with math-verify, in a fork of `fork_server.py`: the standard library and math-verify only.

{"answer": str, "gold": str}  ->  RIGHT or WRONG

Only LaTeX is parsed: the plain-expression parser of math-verify evaluates its input as Python. Answer and gold are as
`readings.py` made them, and `wording.py` found nothing in them that math-verify would pass over.

Left as math-verify has it: lists are compared as sets (`B, C, A` is `A, B, C`), a tuple against a set or a list too,
and a unit that only one side names does not count.
"""

import re
from typing import Any

RIGHT, WRONG = "right", "wrong"

SMALL, TOLERANCE = 0.01, 1e-4  # math-verify rounds to 6 decimals: from SMALL up that is within the relative tolerance
ROUNDED = 0.01  # how far apart the sides of an equation like 1/3 = 0.33 may be

_BASE = re.compile(r"\d[0-9A-Fa-f]*\)?_(?:\{\s*(\d+)\s*\}|(\d+))\s*$")  # 52_9, (52)_{9}

# Typical pairs. Comparing them loads sympy and fills the parser's tables, once for all forks.
WARM_UP = (
    (r"\frac{1}{2}x^2", r"\frac{x^2}{2}"),
    ("x^2+2x+1", "(x+1)^2"),
    (r"\frac{1}{\sqrt{2}}", r"\frac{\sqrt{2}}{2}"),
    (r"\{1,2\}", "2,1"),
    ("(1,2)", "[1,2)"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\3\end{pmatrix}"),
    (r"x\le 3", "3"),
)


def equivalent(answer: str, gold: str) -> bool:
    """Whether two LaTeX answers denote the same thing, after math-verify. Unparsable: False.

    Where math-verify would be fooled it is helped: it passes over the base of a numeral, takes the right-hand side of
    an equation for its value even if that is false, and rounds, so that all tiny numbers are one.
    """
    from math_verify import LatexExtractionConfig, parse, verify

    bases = {base for text in (gold, answer) if (base := _base(text)) is not None}
    if len(bases) == 2:
        return False
    latex = [LatexExtractionConfig(boxed_match_priority=0)]
    parsed: list[list[Any]] = [
        parse(rf"\boxed{{{text}}}", latex, parsing_timeout=None)  # type: ignore[arg-type]
        for text in (gold, answer)
    ]
    if not all(parsed) or not verify(parsed[0], parsed[1], timeout_seconds=None):
        return False
    if any(_false(sides[0]) for sides in parsed):
        return False
    return not _differ(parsed[0][0], parsed[1][0])


def _base(text: str) -> str | None:
    """The subscript that a numeral ends with."""
    found = _BASE.search(text)
    return found and (found[1] or found[2])


def _false(value: Any) -> bool:
    """Whether an equation sets two numbers equal that are not: 7 = 5. One of them may be rounded: 1/3 = 0.33."""
    from sympy import Equality, Expr

    if not isinstance(value, Equality):
        return False
    sides = [side.doit() for side in value.args]
    if not all(isinstance(side, Expr) and side.is_number for side in sides):
        return False
    left, right = (side.evalf() for side in sides)
    if all(side.is_Integer for side in sides):
        return bool(left != right)
    return bool(abs(left - right) > ROUNDED * max(abs(left), abs(right)))


def _differ(gold: Any, answer: Any) -> bool:
    """Whether rounding hid that small numbers, or those that two equations end with, are not the same."""
    from sympy import Equality, Expr

    if isinstance(gold, Equality) and isinstance(answer, Equality):
        return _differ(gold.rhs, answer.rhs)
    if not all(isinstance(value, Expr) and value.is_number for value in (gold, answer)):
        return False
    gold, answer = (value.doit().evalf() for value in (gold, answer))  # a percentage is kept as a product until then
    if gold == 0 or max(abs(gold), abs(answer)) >= SMALL:
        return False
    return not bool(abs(answer / gold - 1) <= TOLERANCE)


def warm_up() -> None:
    try:
        for answer, gold in WARM_UP:
            equivalent(answer, gold)
    except ImportError as error:
        raise ImportError(f"{error}; install math-verify (pip install 'openrlhf[math]')") from error


def judge(request: dict[str, Any]) -> str:
    return RIGHT if equivalent(request["answer"], request["gold"]) else WRONG
