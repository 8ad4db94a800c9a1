"""The text of an episode while its tokens grow.

    text = RunningText(decode, prompt_token_ids, prompt)
    action = text.act(sampled_ids)  # what they add to the text
    text.observe(feedback_ids)
    text.whole

Ids decoded alone lose what depends on those before them: decoders of SentencePiece kind drop the space before the
first word, and a character may be sampled in two actions. So ids are decoded after the last piece that ended in a whole
character, and not after everything: the cost stays linear in the tokens.
"""

from collections.abc import Callable, Sequence

_UNFINISHED = "\ufffd"  # how decoders show the bytes of a character that is not all there


class RunningText:
    """`whole` is the text so far. Ids that end within a character show it as U+FFFD until the rest of it is there."""

    def __init__(self, decode: Callable[[list[int]], str], token_ids: Sequence[int], text: str) -> None:
        """`text`: what was written for the ids, where they are not just its encoding (images, a first token)."""
        self.whole = text
        self._decode = decode
        self._ids: list[int] = []
        self._text = ""  # of these ids alone
        self._begin(token_ids)

    def act(self, token_ids: Sequence[int]) -> str:
        """Append sampled ids; returns what they add."""
        ids = [*self._ids, *token_ids]
        after = self._decode(ids)
        added = self._grow(after)
        self._ids, self._text = ids, after
        if token_ids and not after.endswith(_UNFINISHED):  # the next ids need these alone before them
            self._begin(token_ids)
        return added

    def observe(self, token_ids: Sequence[int], text: str | None = None) -> None:
        """Append ids that were tokenised from text. `text`: theirs, where they show another (the tokens of images)."""
        if text is None:
            self._grow(self._decode([*self._ids, *token_ids]))
        else:
            self.whole += text
        if token_ids:
            self._begin(token_ids)

    def _begin(self, token_ids: Sequence[int]) -> None:
        self._ids = list(token_ids)
        self._text = self._decode(self._ids)

    def _grow(self, after: str) -> str:
        """Append what `after` has beyond the text of the ids so far; a character that became whole is replaced."""
        kept = _num_common(self._text, after)
        self.whole = self.whole.removesuffix(self._text[kept:]) + after[kept:]
        return after[kept:]


def _num_common(first: str, second: str) -> int:
    """How many characters both begin with."""
    if second.startswith(first):
        return len(first)
    return next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), len(second))
