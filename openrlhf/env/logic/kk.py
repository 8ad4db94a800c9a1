"""Knights and knaves: who tells the truth?

The answer between `<answer>` and `</answer>` says `NAME is a knight` or `NAME is a knave` of everybody, and so does the
label's `gold_ans`. A label may name other words for the two kinds: `"roles": ["angel", "devil"]`.

    rewards = 1 or -1 for the form (`form_of`) + the share of names with the right role
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from openrlhf.env.errors import EnvError
from openrlhf.env.label import gold_of
from openrlhf.env.logic.form import form_logs, form_of
from openrlhf.env.task import REWARD, SCORE, TaskSample
from openrlhf.env.terms.answer_format import answer_part
from openrlhf.env.tools import TaskTools

ROLES = ("knight", "knave")


async def kk_reward(sample: TaskSample, tools: TaskTools) -> dict[str, float | None]:
    text = sample.text
    form = form_of(text, sample.count_tokens)
    said = answer_part(text)
    share = 0.0 if said is None else share_right(said, gold_of(sample.label), roles_of(sample.label))
    return await form_logs(sample, form) | {REWARD: form + share, SCORE: share}


def check_kk_label(label: Mapping[str, Any]) -> None:
    """EnvError for a label whose answer names nobody, or would itself not be right."""
    gold, roles = gold_of(label), roles_of(label)
    if not named(gold, roles):
        raise EnvError(f"task kk: 'gold_ans' {gold[:80]!r} holds no `NAME is a {ROLES[0]}`")
    if share_right(gold, gold, roles) < 1:
        raise EnvError(f"task kk: 'gold_ans' {gold[:80]!r} must say once of each name, one word, what it is")


def share_right(answer: str, gold: str, roles: Sequence[str] = ROLES) -> float:
    """The share of the gold answer's names to which the answer gives the right role.

    0 where the answer holds more or fewer role words than there are names: it must not name both.

    Example: `Ann is a knight, Bob is a knight` for `Ann is a knight, Bob is a knave` -> 0.5
    """
    wanted = named(gold, roles)
    words = re.findall(rf"\b(?:{_either(roles)})s?\b", _unmarked(answer), re.IGNORECASE)
    if not wanted or len(words) != len(wanted):
        return 0.0
    given = named(answer, roles)
    return sum(given.get(name) == role for name, role in wanted.items()) / len(wanted)


def named(text: str, roles: Sequence[str] = ROLES) -> dict[str, str]:
    """Role by name, both in lower case; the last statement about a name stands."""
    # Bounded repetitions: a response made to be hard costs no more than its length.
    said = rf"\b(\w[\w'-]{{0,40}})\W{{1,8}}is\s{{1,8}}(?:(?:an?|the)\s{{1,8}})?({_either(roles)})\b"
    found = re.findall(said, _unmarked(text), re.IGNORECASE)
    return {name.lower(): role.lower() for name, role in found}


def roles_of(label: Mapping[str, Any]) -> tuple[str, ...]:
    """The label's words for the two kinds. EnvError where they are not two words."""
    roles = label.get("roles", ROLES)
    if not (isinstance(roles, list | tuple) and len(roles) == 2 and all(isinstance(role, str) for role in roles)):
        raise EnvError(f"task kk: 'roles' must be two words like {list(ROLES)}, not {roles!r}")
    return tuple(roles)


def _unmarked(text: str) -> str:
    """Without the marks of bold, italic and code; an underscore inside a word stays."""
    return re.sub(r"[*`]|(?<![^\W_])_+|_+(?![^\W_])", "", text)


def _either(roles: Sequence[str]) -> str:
    return "|".join(map(re.escape, roles))
