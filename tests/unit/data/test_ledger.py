"""Exactly once: every prompt's state, and the moves between them."""

import itertools
import pickle

import pytest

from openrlhf.data.errors import DataError, LedgerError
from openrlhf.data.ledger import PromptLedger, PromptState

DRAWN, IN_FLIGHT, BUFFERED, TRAINED, FILTERED, STALE, FAILED = PromptState

# The path that leads to each state, and every move out of it that is legal; all others must be refused.
PATHS = {
    DRAWN: [],
    IN_FLIGHT: [IN_FLIGHT],
    BUFFERED: [IN_FLIGHT, BUFFERED],
    TRAINED: [IN_FLIGHT, BUFFERED, TRAINED],
    FILTERED: [IN_FLIGHT, FILTERED],
    STALE: [IN_FLIGHT, BUFFERED, STALE],
    FAILED: [IN_FLIGHT, FAILED],
}
LEGAL = {
    (DRAWN, IN_FLIGHT),
    (IN_FLIGHT, DRAWN),
    (IN_FLIGHT, BUFFERED),
    (IN_FLIGHT, FILTERED),
    (IN_FLIGHT, FAILED),
    (BUFFERED, TRAINED),
    (BUFFERED, FILTERED),
    (BUFFERED, FAILED),
    (BUFFERED, STALE),
    (STALE, DRAWN),
}


def _at(state, num_prompts=4):
    ledger = PromptLedger(num_prompts)
    ledger.draw(0, [1])
    for step in PATHS[state]:
        ledger.move(0, [1], step)
    return ledger


@pytest.mark.parametrize(("start", "end"), list(itertools.product(PromptState, PromptState)))
def test_each_move_is_legal_or_refused(start, end):
    ledger = _at(start)
    if (start, end) in LEGAL:
        ledger.move(0, [1], end)
        assert ledger.state(0, 1) is end
    else:
        with pytest.raises(LedgerError, match=f"prompt 1 of episode 0 cannot go from {start} to {end}"):
            ledger.move(0, [1], end)
        assert ledger.state(0, 1) is start


@pytest.mark.parametrize("state", list(PromptState))
def test_a_prompt_is_drawn_once_in_an_episode_and_again_in_the_next(state):
    ledger = _at(state)
    with pytest.raises(LedgerError, match="prompt 1 was already drawn in episode 0"):
        ledger.draw(0, [0, 1])
    assert ledger.state(0, 0) is None
    ledger.draw(1, [0, 1])
    assert ledger.state(1, 1) is DRAWN
    assert ledger.state(0, 1) is state


def test_a_move_happens_for_all_its_prompts_or_for_none():
    ledger = PromptLedger(4)
    ledger.draw(0, [0, 1])
    ledger.move(0, [0, 1], IN_FLIGHT)
    ledger.move(0, [0], BUFFERED)
    with pytest.raises(LedgerError, match="cannot go from in_flight to trained"):
        ledger.move(0, [0, 1], TRAINED)
    assert ledger.state(0, 0) is BUFFERED


def test_prompts_that_were_not_drawn_or_do_not_exist():
    ledger = PromptLedger(4)
    with pytest.raises(LedgerError, match="prompt 2 of episode 0 cannot go from untouched to in_flight"):
        ledger.move(0, [2], IN_FLIGHT)
    for ids in ([4], [-1]):
        with pytest.raises(LedgerError, match="outside the 4"):
            ledger.draw(0, ids)
    with pytest.raises(LedgerError, match="twice in one move"):
        ledger.draw(0, [1, 1])
    ledger.draw(0, [])
    assert ledger.summary() == "0 prompts drawn"


def _busy():
    """Episode 0 over 8 prompts: 5 trained, 3 filtered, 0 in flight, 7 buffered, 2 and 6 drawn; episode 1: 4 stale."""
    ledger = PromptLedger(8)
    ledger.draw(0, [5, 3, 0, 7, 2, 6])
    ledger.move(0, [5, 3, 0, 7], IN_FLIGHT)
    ledger.move(0, [5, 7], BUFFERED)
    ledger.move(0, [5], TRAINED)
    ledger.move(0, [3], FILTERED)
    ledger.draw(1, [4])
    for state in (IN_FLIGHT, BUFFERED, STALE):
        ledger.move(1, [4], state)
    return ledger


def test_counts_and_summary():
    ledger = _busy()
    none = dict.fromkeys(PromptState, 0)
    assert ledger.counts(0) == none | {DRAWN: 2, IN_FLIGHT: 1, BUFFERED: 1, TRAINED: 1, FILTERED: 1}
    assert ledger.counts(1) == none | {STALE: 1}
    assert ledger.counts(2) == none
    assert sum(ledger.counts().values()) == 7
    expected = "7 prompts drawn: 2 drawn, 1 in flight, 1 buffered, 1 trained, 1 filtered, 1 stale"
    assert ledger.summary() == expected.replace("2 drawn", "2 waiting")


def test_the_state_survives_a_restart_exactly():
    ledger = _busy()
    state = pickle.loads(pickle.dumps(ledger.state_dict()))
    restored = PromptLedger(8)
    restored.load_state_dict(state)
    for episode, prompt_id in itertools.product(range(3), range(8)):
        assert restored.state(episode, prompt_id) is ledger.state(episode, prompt_id)
    assert restored.unfinished() == ledger.unfinished() == [(0, 0), (0, 7), (0, 2), (0, 6)]
    assert restored.summary() == ledger.summary()
    with pytest.raises(LedgerError, match="cannot go from trained"):
        restored.move(0, [5], IN_FLIGHT)


def test_a_saved_state_does_not_change_afterwards():
    ledger = _busy()
    state = ledger.state_dict()
    ledger.move(0, [7], TRAINED)
    restored = PromptLedger(8)
    restored.load_state_dict(state)
    assert restored.state(0, 7) is BUFFERED
    restored.move(0, [7], TRAINED)
    again = PromptLedger(8)
    again.load_state_dict(state)
    assert again.state(0, 7) is BUFFERED


def test_recovery_draws_lost_work_again_and_keeps_what_was_saved():
    ledger = _busy()
    assert ledger.recover(keep=[(0, 7)]) == [(0, 0), (0, 2), (0, 6)]
    assert ledger.state(0, 7) is BUFFERED
    assert ledger.state(0, 0) is DRAWN
    ledger.move(0, [0, 2, 6], IN_FLIGHT)
    ledger = _busy()
    assert ledger.recover() == [(0, 0), (0, 7), (0, 2), (0, 6)]
    assert ledger.state(0, 7) is DRAWN
    assert ledger.state(0, 5) is TRAINED
    with pytest.raises(LedgerError, match=r"not buffered: \[\(0, 5\)\]"):
        _busy().recover(keep=[(0, 5), (0, 7)])


def test_work_that_is_retried_keeps_its_place_in_the_order():
    ledger = _busy()
    ledger.move(0, [0], DRAWN)
    assert ledger.unfinished() == [(0, 0), (0, 7), (0, 2), (0, 6)]
    ledger.move(1, [4], DRAWN)
    assert ledger.unfinished()[-1] == (1, 4)


def test_a_state_of_another_set_or_version_is_refused():
    state = _busy().state_dict()
    with pytest.raises(DataError, match="9 prompts now, 8 in the checkpoint"):
        PromptLedger(9).load_state_dict(state)
    with pytest.raises(DataError, match="version 2"):
        PromptLedger(8).load_state_dict({**state, "version": 2})
