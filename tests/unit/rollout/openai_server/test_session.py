"""Which sessions a request finds."""

import pytest

from openrlhf.rollout.openai_server import session as module
from openrlhf.rollout.openai_server.session import Session, SessionClosed, Sessions
from openrlhf.types import SamplingParams


def fresh() -> Session:
    return Session(SamplingParams(), 100)


def test_a_closed_session_stays_closed_and_a_new_name_is_made_on_demand():
    sessions, own = Sessions(idle_s=10), fresh()
    sessions.open("a", own)
    assert sessions.use("a") is own
    sessions.close("a")
    assert own.closed
    for make in (None, fresh):
        with pytest.raises(SessionClosed, match="session 'a' is not open: its sample is finished"):
            sessions.use("a", make)
    with pytest.raises(SessionClosed, match="'b'"):
        sessions.use("b")
    made = sessions.use("b", fresh)
    assert sessions.use("b") is made


def test_closed_sessions_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(module, "_REMEMBERED", 3)
    sessions = Sessions(idle_s=10)
    for number in range(9):
        sessions.open(str(number), fresh())
        sessions.close(str(number))
    assert len(sessions) == 0
    assert sessions.use("5", fresh)  # long forgotten
    with pytest.raises(SessionClosed):
        sessions.use("6", fresh)
