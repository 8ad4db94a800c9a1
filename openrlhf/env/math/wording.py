"""What math-verify passes over in a text: the order of letters, all that follows a unit, the unit itself, primes.

It reads a word as a product of symbols, drops everything from the first `\\text{...}` on where the text ends with a
brace, and ignores primes and transposes. So texts that are not the same can be equal to it.
"""

import re

from openrlhf.env.math.answers import simplify
from openrlhf.env.math.readings import SPACES, TEXT_COMMAND
from openrlhf.env.math.units import known, spelling, unit_words, units_differ

_WORD = re.compile(r"[A-Z]{2,}|[A-Za-z]{3,}")
_JOINTS = re.compile(r"[\s{}()*]|\\cdot|\\times")
_NOT_A_WORD = re.compile(r"\b(?:and|or|inf|infinity)\b")

_BESIDE = re.compile(rf"(?<![\d.^_])\d[\d.]*{SPACES}+\{{?\s*\.?\d")  # but not behind an exponent or a subscript
_CLOCK = re.compile(r"\d{1,2}:[0-5]\d(?![\d:])")
_LONG_RATIO = re.compile(r"\d:\d+:\d")
_GOES_ON = re.compile(r",\s*(?:\\[lc]?dots|\.\.\.)")
_MINUTES = re.compile(r"\d(?:\^\s?\{?)?(?:'|\\prime)+")  # of an angle, or feet
_PRIME = re.compile(r"'|\\prime")
_TRANSPOSED = re.compile(r"\^\s?\{?\s?(?:T|\\top|\\intercal|\\mathrm\s?\{T\})(?![a-zA-Z])")

_TEXT = re.compile(rf"{TEXT_COMMAND}((?:[^{{}}]|\{{[^{{}}]*\}})*)\}}")
_AND_OR = re.compile(rf",?\s?{TEXT_COMMAND}\s*(?:and|or)\s*\}}")
_CONDITION = re.compile(r"\W*(?:for|where|when|if)\b")
_NUMBER_IN_TEXT = re.compile(r"(?<![A-Za-z^{\d])\d")  # but not cm2
_OF_A_UNIT = re.compile(r"\^\s?\{?-?\d\}?|\\cdot|\\times|\\circ|\\[,;: !$]|[\s/(){}.*~$^]")
_BARE_UNIT = re.compile(r"(?<=[\d})])\s?([a-zA-Z][a-zA-Z./ ]{0,30}(?:\^\{?\d\}?)?)$")

# A unit that is stripped has three letters, or stands apart and has two; what may be a product of letters stays.
_APART = re.compile(r"\s|[a-zA-Z]{3}|[a-zA-Z]/")
_LETTERS = {"bc", "ad", "ce", "am", "pm", "ha", "c", "f"}
_FOR_ALL = re.compile(rf"{TEXT_COMMAND}\s?for\s(?:all|any|every|each)\b")
_ELEMENT = re.compile(r",\s*\(?([a-zA-Z])\s*\\in\s*\\mathbb\s?(?:\{[A-Z]\}|[A-Z])(?:[\^_]\{?[+*\-\d]\}?)?\)?\s*$")


def verdict_of_wording(answer: str, gold: str) -> bool | None:
    """Right or wrong where the texts, as `readings.read` made them, decide it; None: compare them as mathematics."""
    plain = simplify(answer), simplify(gold)
    if plain[0] == plain[1]:
        return True
    by_words = _words(*plain)
    if by_words is not None:
        return by_words
    texts = [_split(side) for side in (answer, gold)]
    if any(_says_more(text) for _, text in texts):
        return _tokens(plain[0]) == _tokens(plain[1])
    if any(_BESIDE.search(side) for side in (answer, gold)):
        return False
    if _marks_differ(answer, gold) or _times_differ(*plain) or units_differ(_unit(answer), _unit(gold)):
        return False
    if all(_CONDITION.match(simplify(text)) for _, text in texts):
        numbers = [re.findall(r"\d+", text) for _, text in texts]
        return None if numbers[0] == numbers[1] else False
    return None


def without_asides(answer: str, gold: str) -> tuple[str, str]:
    """The texts without the unit and the qualifier that only one of them names, or both alike.

    Example:
        `5 km/h` against `5`, and `2n+1, n\\in\\mathbb{Z}` against `2n+1`
    """
    cut = [_without_qualifier(side) for side in (answer, gold)]
    kinds = {simplify(aside).replace(" ", "") for _, aside in cut if aside}
    if len(kinds) == 1:
        answer, gold = cut[0][0], cut[1][0]
    return _without_units(answer, gold)


def _without_qualifier(text: str) -> tuple[str, str]:
    """The text, and the `for all ...` or the `, n \\in \\mathbb{Z}` about one of its letters that it ends with."""
    found = _FOR_ALL.search(text) or _ELEMENT.search(text)
    before = text[: found.start()].rstrip(", ") if found else ""
    if found is None or not before:
        return text, ""
    if found.re is _FOR_ALL and re.search(r"\d", text[found.start() :]):
        return text, ""  # for all x > 3
    if found.re is _ELEMENT and found[1] not in re.findall("[a-zA-Z]", re.sub(r"\\[a-zA-Z]+", "", before)):
        return text, ""  # of x, y \in R
    return before, text[found.start() :].strip()


def _without_units(answer: str, gold: str) -> tuple[str, str]:
    """The texts without bare units that are none but units. Of the same unit on both sides, either both go or none."""
    sides = answer, gold
    named = [_unit(side) for side in sides]
    amounts = [_amount(side) if words else None for side, words in zip(sides, named, strict=True)]
    certain = [amount is not None and _surely_a_unit(side) for side, amount in zip(sides, amounts, strict=True)]
    if amounts[0] is not None and amounts[1] is not None:
        return (amounts[0], amounts[1]) if any(certain) else sides
    cut = list(sides)
    for i, amount in enumerate(amounts):
        other = 1 - i  # without a unit its letters may be the same ones; math-verify itself drops one in \text
        safe = certain[i] and (named[other] or not _has_letters(sides[other]))
        if amount is not None and (safe or named[i] == named[other]):
            cut[i] = amount
    return cut[0], cut[1]


def _amount(text: str) -> str | None:
    """What stands before a bare unit; None where the text has none."""
    plain = simplify(text)
    found = _BARE_UNIT.search(plain)
    return None if found is None or _TEXT.search(text) else plain[: found.start(1)].strip()


def _surely_a_unit(text: str) -> bool:
    """Whether the bare unit that a text ends with cannot be letters that are multiplied, as in `6 s^2` and `25cm^2`."""
    found = _BARE_UNIT.search(simplify(text))
    if found is None or not _APART.search(found[0]):
        return False
    if _LETTERS.intersection(re.findall("[a-z]+", found[1].lower())):
        return False
    return all(re.search("[a-zA-Z]{2}", part) for part in found[1].split())


def _has_letters(text: str) -> bool:
    return bool(re.search("[a-zA-Z]", re.sub(r"\\[a-zA-Z]+", "", simplify(_split(text)[0]))))


def _words(answer: str, gold: str) -> bool | None:
    """ABC is not BCA where either is written as a word; xy is yx, and `a b c` is abc."""
    sides = answer, gold
    letters = [_JOINTS.sub("", side) for side in sides]
    if not all(re.fullmatch("[A-Za-z]+", side) for side in letters) or any(map(_NOT_A_WORD.search, sides)):
        return None
    if not any(_WORD.fullmatch(piece) for side in sides for piece in side.split()):
        return None
    if answer.lower() == gold.lower() and (len(gold) > 2 or gold.lower() == "no"):
        return True
    return None if letters[0] == letters[1] else False


def _split(text: str) -> tuple[str, str]:
    """The amount, and the text from the first `\\text{...}` on that math-verify drops: nothing if it keeps all."""
    text = _AND_OR.sub(",", text.strip().rstrip(".").rstrip())
    text = text.replace(r"\mathrm{d}", "d").replace(r"\mathrm{T}", "T")
    found = _TEXT.search(text)
    if found is None or not text[: found.start()].strip() or not re.search(r"\}(?:\^\d)?$", text):
        return text, ""
    return text[: found.start()], text[found.start() :]


def _says_more(text: str) -> bool:
    """Whether the dropped text is more than a unit or a condition: it holds a number, or more follows it."""
    inside = _TEXT.findall(text)
    if any(map(_NUMBER_IN_TEXT.search, inside)):
        return True
    return not _CONDITION.match("".join(inside[:1])) and bool(_OF_A_UNIT.sub("", _TEXT.sub("", text)))


def _tokens(text: str) -> list[str]:
    """Numbers, words and signs. Units have one spelling, and `and` and commas do not count."""
    found = re.findall(r"\d+(?:\.\d+)?|[A-Za-z]+|[^\s\w]", text)
    words = [spelling(token.lower()) or token if len(token) > 1 else token for token in found]
    return [word for word in words if word not in ("and", ",")]


def _unit(text: str) -> list[str]:
    """The words of the unit that a text ends with; of a bare one only where it stands in the table of units."""
    amount, behind = _split(text)
    words: list[str] = []
    if behind:
        if not _CONDITION.match(simplify(behind)):
            words = unit_words(simplify(behind))
    else:
        found = _BARE_UNIT.search(simplify(text))
        before = simplify(text)[: found.start(1)] if found else "x"
        if found and not re.search("[a-zA-Z]", re.sub(r"\\[a-zA-Z]+", "", before)):
            words = unit_words(found[1])
            words = words if known(words) else []
    if words and words[0] in ("celsius", "fahrenheit") and r"\circ" not in amount:
        return words
    dollars = ["dollar"] if amount.lstrip().startswith(r"\$") and "dollar" not in words else []
    return dollars + words


def _marks_differ(answer: str, gold: str) -> bool:
    """Whether one has more primes, or only one is transposed. Of y' = 2x against 2x only the right-hand side counts."""
    sides = [_TEXT.sub("", side) for side in (answer, gold)]
    if ("=" in sides[0]) != ("=" in sides[1]):
        sides = [side.rpartition("=")[2] for side in sides]
    primes = [len(_PRIME.findall(_MINUTES.sub("", side))) for side in sides]
    transposed = [bool(_TRANSPOSED.search(side)) for side in sides]
    return primes[0] != primes[1] or transposed[0] != transposed[1]


def _times_differ(answer: str, gold: str) -> bool:
    """Whether 8:30 is taken for 8/30, 1:2:3 for 1/6, or a list that goes on for one that ends."""
    if bool(_GOES_ON.search(answer)) != bool(_GOES_ON.search(gold)):
        return True
    if _CLOCK.match(answer) and ":" not in gold:
        return True
    return any(_LONG_RATIO.search(one) and ":" not in other for one, other in ((answer, gold), (gold, answer)))
