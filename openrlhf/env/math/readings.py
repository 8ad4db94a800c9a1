"""What an answer means to a mathematician, written so that math-verify reads it the same way.

math-verify adds numbers that stand beside each other (`(2)(3)` is 5 to it, `2 1/2` is 3/2), and cannot read much of
what people write. Every repair takes time linear in the text.
"""

import re

_SYMBOLS = {
    "°": r"^\circ ",
    "½": r"\frac{1}{2}",
    "¼": r"\frac{1}{4}",
    "¾": r"\frac{3}{4}",
    "²": "^{2}",
    "³": "^{3}",
    "∞": r"\infty ",
    "−": "-",
    "×": r"\times ",
    "÷": r"\div ",
    "·": r"\cdot ",
    "π": r"\pi ",
    "≤": r"\le ",
    "≥": r"\ge ",
    "≠": r"\ne ",
    "∅": r"\emptyset ",
}
_MULTIPLIERS = {
    "hundred": r"\cdot 10^{2}",
    "thousand": r"\cdot 10^{3}",
    "million": r"\cdot 10^{6}",
    "billion": r"\cdot 10^{9}",
    "trillion": r"\cdot 10^{12}",
    "dozen": r"\cdot 12",
    "squared": "^{2}",
    "cubed": "^{3}",
}

# Commands of text, as math-verify knows them.
TEXT_COMMAND = r"\\(?:text(?:normal|bf|it|rm)?|math(?:rm|it|bf)|mbox)\s?\{"
SPACES = r"(?:\\(?:[,;: ]|q?quad(?![a-zA-Z])|thinspace(?![a-zA-Z]))|~|\s)"
_NUMBER = r"\d+(?:\.\d+)?"
_BRACKETED = rf"(?:\\left)?[(\[]\s*-?{_NUMBER}\s*(?:\\right)?[)\]]"

_SYMBOL = re.compile("|".join(_SYMBOLS))
_ROOT = re.compile(r"√\s?(?:\((\w+)\)|(\d+|[a-zA-Z])|)")
# The text comes out of the last box: a box inside it is only a frame.
_TYPESETTING = re.compile(r"\\tag\s?\{[^{}]*\}|\\(?:text)?color\s?\{[^{}]*\}|\\(?:boxed|fbox)(?![a-zA-Z])")
_FRACTION = re.compile(r"(\\(?:[dtc]?frac|[dt]?binom))\s*(\d)\s*(?:(\d)|(?=\{))")
# 1.5e3, 2e3, 1E-5. But 2e-1 and 3e+2 may be sums with Euler's number, and 1E5_{16} is a numeral to base 16.
_SCIENTIFIC = re.compile(
    r"(?<![\w.^\\])(?:(\d+\.\d+|1)e([+-]?\d+)|(\d+(?:\.\d+)?)E([+-]?\d+)|(\d+)e(\d+|[+-]0\d+))(?![\w.]|\)?_)"
)
_MULTIPLIER = re.compile(rf"(?<=[\d}}]){SPACES}{{0,4}}({TEXT_COMMAND}\s?)?({'|'.join(_MULTIPLIERS)})s?(?![a-zA-Z])")
# 10\,200, but neither 0\,125 nor the exponent of x^2\,100. math-verify itself tells 10{,}200 from 0{,}125.
_GROUPED = re.compile(r"(?<![\d.,}^_])[1-9]\d{0,2}(?:(?:\\[,;:! ]|~|\s)+\d{3})+(?!\d)")
_MIXED = re.compile(rf"(?<![\d.,/^_}}\\])(\d+){SPACES}+(\d+)/(\d+)(?![\d./])")
_BRACED = re.compile(r"(^|[\d=+\-(,;])\{(-?\d+(?:\.\d+)?)\}")
_PRODUCT = re.compile(
    rf"({_BRACKETED}|(?<![\d._^])(?<!_\{{){_NUMBER}){SPACES}*(?={_BRACKETED})|({_BRACKETED}){SPACES}*(?=\d)"
)


def read(text: str) -> str:
    """The text for math-verify, in LaTeX that leaves no choice.

    Example:
        `read("2 1/2")` is `2\\frac{1}{2}`, and `read("7(11)")` is `7\\cdot (11)`
    """
    text = _SYMBOL.sub(lambda found: _SYMBOLS[found[0]], text.strip()).replace(r"\varnothing", r"\emptyset")
    text = _ROOT.sub(_root, text)
    text = _TYPESETTING.sub("", text).strip()
    text = _FRACTION.sub(lambda found: f"{found[1]}{{{found[2]}}}" + (f"{{{found[3]}}}" if found[3] else ""), text)
    text = _SCIENTIFIC.sub(_power_of_ten, text)
    for _ in range(2):  # two hundred thousand
        text = _MULTIPLIER.sub(lambda found: _MULTIPLIERS[found[2]] + (r"\text{" if found[1] else ""), text)
    text = _GROUPED.sub(lambda number: re.sub(r"\D", "", number[0]), text)
    text = _MIXED.sub(_mixed, text)
    text = _BRACED.sub(r"\1 \2 ", text).strip()
    return _PRODUCT.sub(lambda found: (found[1] or found[2]) + r"\cdot ", text)


def _root(found: re.Match[str]) -> str:
    under = found[1] or found[2]
    return rf"\sqrt{{{under}}}" if under else r"\sqrt "


def _power_of_ten(found: re.Match[str]) -> str:
    number, exponent = (group for group in found.groups() if group is not None)
    return rf"{number}\times10^{{{exponent}}}"


def _mixed(found: re.Match[str]) -> str:
    """2 1/2 -> 2\\frac{1}{2}. Not 2 3/2, which may be a product."""
    whole, over, under = found.groups()
    if len(over) > len(under) or (len(over) == len(under) and over >= under):
        return found[0]
    return rf"{whole}\frac{{{over}}}{{{under}}}"
