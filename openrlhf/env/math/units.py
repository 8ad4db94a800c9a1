"""The unit that an answer names behind its number, in one spelling."""

import re

_SPELLINGS = """
mm millimeter millimetre; cm centimeter centimetre; m meter metre; km kilometer kilometre; in inch; ft foot feet;
yd yard; mi mile; mg milligram; g gram gm; kg kilogram; ton tonne; lb pound; oz ounce; ml milliliter millilitre;
l liter litre; gal gallon; qt quart; pint; acre; hectare ha; ms millisecond; s sec second; min minute; h hr hour; day;
week wk; month; yr year; am; pm; dollar usd; euro eur; yen; cent; rupee; degree deg; radian rad; percent pct percentage;
celsius c; fahrenheit f; man men; woman women; boy; girl; male; female; north; south; east; west; up; down; left; right;
bc bce; ad ce
"""
_UNITS = {word: line.split()[0] for line in _SPELLINGS.split(";") for word in line.split()}
_COMPOUND = {"mph": ["mi", "/", "h"], "kph": ["km", "/", "h"], "kmh": ["km", "/", "h"], "kmph": ["km", "/", "h"]}
_POWERS = {"square": "2", "sq": "2", "squared": "2", "cubic": "3", "cu": "3", "cubed": "3"}
_FILLERS = {"a", "an", "the", "of", "th", "st", "nd", "rd", "text", "mathrm", "cdot", "circ"}


def spelling(word: str) -> str | None:
    """The unit's one spelling; None for a word that is no known unit."""
    for name in (word, word.removesuffix("s"), word.removesuffix("es")):
        if name in _UNITS:
            return _UNITS[name]
    return None


def unit_words(phrase: str) -> list[str]:
    """`square meters per second` -> `m2`, `/`, `s`"""
    words: list[str] = []
    power = ""  # of the word that follows
    for word in re.findall(r"[a-z]+|\d+|/", phrase.lower().replace(".", "")):
        if word == "per":
            word = "/"
        if word in _FILLERS:
            continue
        if word in _POWERS and (word in ("squared", "cubed") or not power):
            if word.endswith("ed") and words:
                words[-1] += _POWERS[word]
            else:
                power = _POWERS[word]
        elif word.isdigit():
            if words:
                words[-1] += word
        else:
            words += _COMPOUND.get(word, [(spelling(word) or word) + power])
            power = ""
    temperature = "degree" in words and ("celsius" in words or "fahrenheit" in words)
    return [word for word in words if not (temperature and word == "degree")]


def known(words: list[str]) -> bool:
    return bool(words) and all(word == "/" or word.rstrip("23") in _UNITS for word in words)


def units_differ(answer: list[str], gold: list[str]) -> bool:
    """Whether both name a unit, and not the same one.

    Of words that are in no table, one text may say more than the other: `apples` and `red apples` are the same.
    """
    one, other = "".join(answer), "".join(gold)
    if not one or not other or one == other or "unit" in one or "unit" in other:
        return False
    if known(answer) and known(gold):
        return True
    return one.rstrip("s") not in other and other.rstrip("s") not in one
