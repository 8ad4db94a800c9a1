"""What became of every prompt (DESIGN rule 3).

                    +-------------- drawn again --------------+
                    v                                         |
    (untouched) -> drawn -> in_flight -> buffered -> trained  |
                    ^          |  |         |  |              |
                    +- retry --+  |         |  +-> stale -----+
                                  +----+----+
                                       v
                                filtered, failed

`trained`, `filtered` and `failed` are final: nothing leads out of them within an episode.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import numpy as np

from openrlhf.data.errors import DataError, LedgerError

_VERSION = 1
_UNTOUCHED = 0


class PromptState(StrEnum):
    DRAWN = "drawn"  # taken from the loader, waiting to be generated
    IN_FLIGHT = "in_flight"  # being generated
    BUFFERED = "buffered"  # rollouts complete, waiting for the training step
    TRAINED = "trained"  # a token of its samples was in the loss of an optimiser step
    FILTERED = "filtered"  # refused by a filter
    STALE = "stale"  # waited longer than the buffer allows; may be drawn again
    FAILED = "failed"  # no verdict, or no token to train on


_LEGAL: dict[PromptState, frozenset[PromptState]] = {
    PromptState.DRAWN: frozenset({PromptState.IN_FLIGHT}),
    PromptState.IN_FLIGHT: frozenset(
        {PromptState.DRAWN, PromptState.BUFFERED, PromptState.FILTERED, PromptState.FAILED}
    ),
    PromptState.BUFFERED: frozenset({PromptState.TRAINED, PromptState.FILTERED, PromptState.FAILED, PromptState.STALE}),
    PromptState.STALE: frozenset({PromptState.DRAWN}),
    PromptState.TRAINED: frozenset(),
    PromptState.FILTERED: frozenset(),
    PromptState.FAILED: frozenset(),
}
_STATES = tuple(PromptState)
_CODE = {state: code for code, state in enumerate(_STATES, start=1)}  # 0: untouched
_OPEN = (PromptState.DRAWN, PromptState.IN_FLIGHT, PromptState.BUFFERED)


class PromptLedger:
    """The state of every (episode, prompt_id), one byte each. A move is checked for all its prompts before any moves.

    Raises LedgerError on a second draw in one episode, on a step that is not in the picture above (to train a prompt
    twice is one), and on a prompt that was never drawn.
    """

    def __init__(self, num_prompts: int) -> None:
        self._num_prompts = num_prompts
        self._codes: dict[int, np.ndarray] = {}  # episode -> (num_prompts,) uint8
        self._open: dict[tuple[int, int], None] = {}  # unfinished work, oldest draw first

    def draw(self, episode: int, prompt_ids: Iterable[int]) -> None:
        """Prompts came out of the loader."""
        ids = self._check(prompt_ids)
        codes = self._codes.get(episode)
        for prompt_id in ids:
            if codes is not None and codes[prompt_id] != _UNTOUCHED:
                raise LedgerError(f"prompt {prompt_id} was already drawn in episode {episode}")
        self._set(episode, ids, PromptState.DRAWN)

    def move(self, episode: int, prompt_ids: Iterable[int], to: PromptState) -> None:
        """Prompts of one episode enter the state `to`."""
        ids = self._check(prompt_ids)
        for prompt_id in ids:
            now = self.state(episode, prompt_id)
            if now is None or to not in _LEGAL[now]:
                raise LedgerError(
                    f"prompt {prompt_id} of episode {episode} cannot go from {now or 'untouched'} to {to}"
                )
        self._set(episode, ids, to)

    def state(self, episode: int, prompt_id: int) -> PromptState | None:
        """Where a prompt stands; None if it was not drawn in this episode."""
        codes = self._codes.get(episode)
        code = _UNTOUCHED if codes is None else int(codes[prompt_id])
        return None if code == _UNTOUCHED else _STATES[code - 1]

    def unfinished(self) -> list[tuple[int, int]]:
        """(episode, prompt_id) that are drawn, in flight or buffered, oldest draw first."""
        return list(self._open)

    def recover(self, keep: Iterable[tuple[int, int]] = ()) -> list[tuple[int, int]]:
        """After a restart: unfinished prompts are drawn again, except those in `keep`, whose rollouts were saved.

        Returns the (episode, prompt_id) to generate before the loader is asked for more, oldest draw first.
        LedgerError if `keep` names a prompt that is not buffered.
        """
        kept = set(keep)
        strangers = [key for key in kept if self.state(*key) is not PromptState.BUFFERED]
        if strangers:
            raise LedgerError(f"rollouts were saved for prompts that are not buffered: {sorted(strangers)}")
        lost = [key for key in self._open if key not in kept]
        for episode, prompt_id in lost:  # past the table of legal moves: only a restart loses finished rollouts
            self._codes[episode][prompt_id] = _CODE[PromptState.DRAWN]
        return lost

    def counts(self, episode: int | None = None) -> dict[PromptState, int]:
        """Prompts in each state, in one episode or in all."""
        totals = np.zeros(len(_STATES) + 1, dtype=np.int64)
        for number, codes in tuple(self._codes.items()):  # another thread may begin an episode
            if episode is None or episode == number:
                totals += np.bincount(codes, minlength=len(totals))
        return {state: int(totals[_CODE[state]]) for state in _STATES}

    def metrics(self) -> dict[str, float]:
        """`ledger/<state>` for every state, and `ledger/drawn_total`: prompts since the start, over all episodes."""
        counts = self.counts()
        found = {f"ledger/{'waiting' if s is PromptState.DRAWN else s}": float(count) for s, count in counts.items()}
        return found | {"ledger/drawn_total": float(sum(counts.values()))}

    def summary(self) -> str:
        """One line: `96 prompts drawn: 64 trained, 8 filtered, 24 in flight`."""
        counts = self.counts()
        shown = ", ".join(f"{counts[state]} {_word(state)}" for state in _STATES if counts[state])
        return f"{sum(counts.values())} prompts drawn" + (f": {shown}" if shown else "")

    def state_dict(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "num_prompts": self._num_prompts,
            "codes": {episode: codes.copy() for episode, codes in self._codes.items()},
            "open": list(self._open),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Exactly the ledger that was saved; see `recover` for what to do next. DataError for another prompt set."""
        if state["version"] != _VERSION:
            raise DataError(f"resume: ledger state of version {state['version']}, this build reads {_VERSION}")
        if state["num_prompts"] != self._num_prompts:
            raise DataError(f"resume: {self._num_prompts} prompts now, {state['num_prompts']} in the checkpoint")
        self._codes = {int(episode): np.array(codes, dtype=np.uint8) for episode, codes in state["codes"].items()}
        self._open = {(int(episode), int(prompt_id)): None for episode, prompt_id in state["open"]}

    def _check(self, prompt_ids: Iterable[int]) -> list[int]:
        ids = list(prompt_ids)
        if len(set(ids)) < len(ids):
            raise LedgerError(f"a prompt is named twice in one move: {ids}")
        outside = [prompt_id for prompt_id in ids if not 0 <= prompt_id < self._num_prompts]
        if outside:
            raise LedgerError(f"prompts {outside} lie outside the {self._num_prompts} of the set")
        return ids

    def _set(self, episode: int, ids: list[int], to: PromptState) -> None:
        if not ids:
            return
        codes = self._codes.setdefault(episode, np.zeros(self._num_prompts, dtype=np.uint8))
        codes[ids] = _CODE[to]
        for prompt_id in ids:
            if to in _OPEN:
                self._open.setdefault((episode, prompt_id))
            else:
                self._open.pop((episode, prompt_id), None)


def _word(state: PromptState) -> str:
    return "waiting" if state is PromptState.DRAWN else state.value.replace("_", " ")
