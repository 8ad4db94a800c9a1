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

TOLERANCE = 1e-4  # how far apart two numbers may be, as a share
SMALL = 0.01  # what is smaller may be 0
MAX_LIST = 16  # a set of more values is not compared value by value
FIRST_POINT, POINT_STEP = "1.3728195046317", "0.6149273850162"  # no number of an answer: 100x-137 would be 0 at 1.37
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
    an equation for its value even if that is false, and rounds, so that all tiny numbers are one, in sums too.
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
    """Whether rounding hid that numbers are not the same: alone, behind an equals sign, in a list or an interval.

    math-verify takes 2^-100 for 0 wherever it stands, so that (2^100-1)/2^100 is 1/2^100 to it. Expressions with
    letters are compared at one point.
    """
    from sympy import Equality, Expr, FiniteSet, Interval, Tuple, UnevaluatedExpr

    if isinstance(gold, Equality) and isinstance(answer, Equality) and gold.lhs != answer.lhs:
        return False  # 2x = 4 and x = 2
    gold, answer = (value.rhs if isinstance(value, Equality) else value for value in (gold, answer))
    if all(isinstance(value, Interval) for value in (gold, answer)):
        return _differ(gold.start, answer.start) or _differ(gold.end, answer.end)
    if all(isinstance(value, Tuple) for value in (gold, answer)):
        return any(_differ(one, other) for one, other in zip(gold, answer, strict=False))
    if all(isinstance(value, FiniteSet | Tuple) for value in (gold, answer)):
        return not (_has_all(answer.args, gold.args) and _has_all(gold.args, answer.args))
    if not all(isinstance(value, Expr) for value in (gold, answer)):
        return False
    percent = gold.has(UnevaluatedExpr) or answer.has(UnevaluatedExpr)  # as math-verify keeps it: 50% is 0.5, or 50
    letters = sorted(gold.free_symbols | answer.free_symbols, key=str)
    gold, answer = _number(gold, letters), _number(answer, letters)
    if gold is None or answer is None:
        return False
    if gold == 0:
        return bool(abs(answer) >= SMALL)
    factors = (1, 100, 0.01) if percent else (1,)
    return not any(bool(abs(answer * factor / gold - 1) <= TOLERANCE) for factor in factors)


def _has_all(values: Any, wanted: Any) -> bool:
    """Whether each wanted value has its like among the values. Of long lists math-verify alone decides."""
    if max(len(values), len(wanted)) > MAX_LIST:
        return True
    return all(any(not _differ(one, other) for other in values) for one in wanted)


def _number(value: Any, letters: Any) -> Any:
    """The value in decimal digits, of an expression with letters at one point; None: infinite, or nothing simple."""
    from sympy import Float, Symbol

    if letters and not (all(isinstance(letter, Symbol) for letter in letters) and value.is_rational_function(*letters)):
        return None  # a sum may not have a value between whole numbers
    first, step = Float(FIRST_POINT, 60), Float(POINT_STEP, 60)
    value = value.subs({letter: first + i * step for i, letter in enumerate(letters)})
    number = value.doit().evalf()
    return number if number.is_number and number.is_finite else None


def warm_up() -> None:
    try:
        for answer, gold in WARM_UP:
            equivalent(answer, gold)
    except ImportError as error:
        raise ImportError(f"{error}; install math-verify (pip install 'openrlhf[math]')") from error


def judge(request: dict[str, Any]) -> str:
    return RIGHT if equivalent(request["answer"], request["gold"]) else WRONG
