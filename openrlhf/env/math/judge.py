"""Compares answers with math-verify, in a fork of `fork_server.py`: the standard library and math-verify only.

{"answer": str, "gold": str}  ->  RIGHT or WRONG

Only LaTeX is parsed: the plain-expression parser of math-verify evaluates its input as Python.
"""

from typing import Any

RIGHT, WRONG = "right", "wrong"

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
    """Whether two LaTeX answers denote the same thing, after math-verify. Unparsable: False."""
    from math_verify import LatexExtractionConfig, parse, verify

    latex = [LatexExtractionConfig(boxed_match_priority=0)]
    parsed = [parse(rf"\boxed{{{text}}}", latex, parsing_timeout=None) for text in (gold, answer)]  # type: ignore[arg-type]
    return all(parsed) and verify(parsed[0], parsed[1], timeout_seconds=None)


def warm_up() -> None:
    try:
        for answer, gold in WARM_UP:
            equivalent(answer, gold)
    except ImportError as error:
        raise ImportError(f"{error}; install math-verify (pip install 'openrlhf[math]')") from error


def judge(request: dict[str, Any]) -> str:
    return RIGHT if equivalent(request["answer"], request["gold"]) else WRONG
