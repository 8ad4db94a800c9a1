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
    "⟨": r"\langle ",
    "⟩": r"\rangle ",
}
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
# Full-width letters, digits and signs have the same order as ASCII; what has no width is nothing.
_WIDTHS = (
    {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5E)}
    | {ord("％"): r"\%"}
    | dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))
)
_CURRENCIES = {"€": "euros", r"\euro": "euros", "£": "pounds", r"\pounds": "pounds", "¥": "yen", "₹": "rupees"}
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
_HIGH = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
_LOW = re.compile("[₀₁₂₃₄₅₆₇₈₉]+")
_CURRENCY = re.compile(rf"(?:{'|'.join(map(re.escape, _CURRENCIES))})(?![a-zA-Z])")
_CURRENCY_TEXT = re.compile(rf"{TEXT_COMMAND}\s?(\\\$|[€£¥₹])\s?\}}")
# What only announces or adorns an answer: `Answer: 7`, `= 7`, `**7**`, `{\bf 7}`.
_ANNOUNCED = re.compile(
    rf"(?i:{TEXT_COMMAND}\s?(?:the\s)?(?:final\s)?answer(?:\sis)?\s?:?\s?\}}\s?:?|(?:the\s)?(?:final\s)?answer(?:\sis)?\s?:)"
    r"|=|\\approx(?![a-zA-Z])|≈"
)
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_SWITCH = re.compile(
    r"\\(?:bf|bfseries|boldmath|displaystyle|textstyle|tiny|scriptsize|footnotesize|small|normalsize|[lL]arge|LARGE|[hH]uge)"
    r"(?![a-zA-Z])\s?"
)
_REPEATING = re.compile(
    r"(?<![\d.,}^_])(\d{1,40})\.(\d{0,40})"
    r"(?:\\(?:overline|bar)\s?(?:\{(\d{1,40})\}|(\d))"
    r"|\\dot\s?(?:\{(\d{1,40})\}|(\d))(?:(\d{0,40})\\dot\s?(?:\{(\d)\}|(\d)))?)"
    r"(?!\d|\\dot|\s?(?:\.\.|\\[lc]?dots)|(?:\s?(?:\\right)?\s?\))?\s?_)"  # nor a numeral to another base
)
_ROOT_OF_BRACKET = re.compile(r"(\\sqrt(?:\[\w\])?)\s?\(([^(){}]{1,40})\)")
_ANGLES = re.compile(r"(\\left)?\s?\\langle((?:[^|<>\\]|\\(?![lr]angle|right|mid))*)(\\right)?\s?\\rangle(?![a-zA-Z])")
_SOME_NUMBER = re.compile(r"(?:^|,)(?=[^,]*\d)(?:[\s\d.+\-/{}^]|\\(?:[dt]?frac|sqrt|pi)(?![a-zA-Z]))+(?:,|$)")
_ROOT = re.compile(r"√\s?(?:\((\w+)\)|(\d+|[a-zA-Z])|)")
# The text comes out of the last box: a box inside it is only a frame.
_TYPESETTING = re.compile(
    r"\\tag\s?\{[^{}]*\}|\\(?:text)?color\s?\{[^{}]*\}|\\(?:boxed|fbox|underline|emph)(?![a-zA-Z])"
)
_SLANTED = re.compile(r"\\(?:s|nice|x)frac(?![a-zA-Z])")
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
    text = _signs(_plain(text))
    text = _ROOT.sub(_root, text)
    text = _SWITCH.sub("", _TYPESETTING.sub("", text)).strip()
    text = _REPEATING.sub(_repeating, text)
    text = _ANGLES.sub(_vector, _ROOT_OF_BRACKET.sub(r"\1{\2}", text))
    text = _SLANTED.sub(r"\\frac", text)
    text = _FRACTION.sub(lambda found: f"{found[1]}{{{found[2]}}}" + (f"{{{found[3]}}}" if found[3] else ""), text)
    text = _SCIENTIFIC.sub(_power_of_ten, text)
    for _ in range(2):  # two hundred thousand
        text = _MULTIPLIER.sub(lambda found: _MULTIPLIERS[found[2]] + (r"\text{" if found[1] else ""), text)
    text = _GROUPED.sub(lambda number: re.sub(r"\D", "", number[0]), text)
    text = _MIXED.sub(_mixed, text)
    text = _BRACED.sub(r"\1 \2 ", text).strip()
    return _PRODUCT.sub(lambda found: (found[1] or found[2]) + r"\cdot ", text)


def _plain(text: str) -> str:
    """The text without what announces or adorns it, and with a currency as the unit behind the number."""
    text = text.translate(_WIDTHS).strip()
    whole = _BOLD.fullmatch(text)
    text = whole[1].strip() if whole else text
    announced = _ANNOUNCED.match(text)
    text = text[announced.end() :].strip() if announced else text
    kept = text.rstrip(",; ")
    if kept != text:
        text = kept.removesuffix("\\")  # of a final `\,`
    text = _CURRENCY_TEXT.sub(r"\1", text)
    names = _CURRENCY.findall(text)
    if len(names) != 1:
        return text
    return rf"{_CURRENCY.sub('', text).strip()}\text{{ {_CURRENCIES[names[0]]}}}"


def _signs(text: str) -> str:
    """The text with LaTeX for signs of Unicode: powers, indices and the rest."""
    text = _HIGH.sub(lambda found: f"^{{{found[0].translate(_RAISED)}}}", text)
    text = _LOW.sub(lambda found: f"_{{{found[0].translate(_LOWERED)}}}", text)
    text = _SYMBOL.sub(lambda found: _SYMBOLS[found[0]], text).replace(r"\varnothing", r"\emptyset")
    return text


def _repeating(found: re.Match[str]) -> str:
    """0.1\\overline{6} -> \\frac{15}{90}: 16 - 1 over as many nines as digits repeat, and zeros as do not."""
    whole, once, *repeated = found.groups(default="")
    again = "".join(repeated)
    over = int(whole + once + again) - int(whole + once)
    return rf"\frac{{{over}}}{{{'9' * len(again)}{'0' * len(once)}}}"


def _vector(found: re.Match[str]) -> str:
    """\\langle 1,2\\rangle -> (1,2). Without a number it may be an inner product: \\langle u,v\\rangle stays."""
    left, inside, right = found.groups(default="")
    return f"{left}({inside}{right})" if "," in inside and _SOME_NUMBER.search(inside) else found[0]


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
