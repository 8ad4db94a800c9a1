"""A session: the conversations of one sample, its limits, and the lock that keeps its requests apart."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from openrlhf.rollout.openai_server.messages import Message
from openrlhf.rollout.openai_server.template import ChatTemplate
from openrlhf.rollout.openai_server.trace import Trace, find_continued
from openrlhf.types import SamplingParams, Segment

_REMEMBERED = 10_000  # ids of closed sessions; what still asks for an older one has long been given up


class SessionClosed(LookupError):
    """A request for a session whose sample is finished, or that nobody opened. One line; names the id."""


@dataclass(slots=True)
class Session:
    """`sampling` is what a request gets where it does not say otherwise; `max_length` bounds each conversation."""

    sampling: SamplingParams
    max_length: int
    sample: str = ""  # tells it apart from the other samples of its prompt; empty: of no sample
    traces: list[Trace] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    truncated: bool = False  # whether the last answer ended for length, or the last request did not fit
    outgrown: str = ""  # why a request was refused, where that was for its length
    other_distribution: str = ""  # what a request asked for that the trainer's log-probabilities know nothing of
    aborted: bool = False
    closed: bool = False
    failure: Exception | None = None  # of the engine: the run must hear of it
    num_answers: int = 0
    used: float = 0.0

    def trace_for(self, template: ChatTemplate, messages: Sequence[Message], tools_key: str) -> tuple[Trace, list[int]]:
        """The trace that a request belongs to, and what it adds to it: nothing for a new one.

        The trace does not change until `commit`, so that a refused request leaves no mark.
        """
        return find_continued(self.traces, messages, tools_key) or (Trace(template, messages, tools_key), [])

    def commit(self, trace: Trace, messages: Sequence[Message], added: Sequence[int]) -> None:
        if trace in self.traces:
            trace.proceed(messages, added)
        else:
            self.traces.append(trace)

    def segments(self) -> tuple[Segment, ...]:
        """One segment per conversation in which something was sampled, in the order in which they began."""
        return tuple(trace.tokens.segment() for trace in self.traces if trace.tokens.has_actions)


class Sessions:
    """Sessions by id. One that nobody has used for `idle_s` seconds, and nobody waits in, is forgotten."""

    def __init__(self, idle_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._idle_s = idle_s
        self._now = now
        self._sessions: dict[str, Session] = {}
        self._kept: set[str] = set()
        self._closed: deque[str] = deque(maxlen=_REMEMBERED)

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, session_id: str, session: Session) -> None:
        """A session that stays until `close`. ValueError if the id is taken."""
        if session_id in self._sessions:
            raise ValueError(f"session {session_id!r} is open already")
        self._kept.add(session_id)
        self._sessions[session_id] = session

    def use(self, session_id: str, make: Callable[[], Session] | None = None) -> Session:
        """The session of a request; where there is none yet, `make` makes it.

        SessionClosed where it has been closed, and where there is none and nothing makes one: a straggler of a finished
        sample would be sampled for nobody.
        """
        self._expire()
        if session_id not in self._sessions:
            if make is None or session_id in self._closed:
                raise SessionClosed(
                    f"session {session_id!r} is not open: its sample is finished, or there never was one; ask at the "
                    "base_url that run_agent is given, and only until it returns"
                )
            self._sessions[session_id] = make()
        session = self._sessions[session_id]
        session.used = self._now()
        return session

    def close(self, session_id: str) -> None:
        """The session answers no further request, also none that waits in it."""
        session = self._sessions.pop(session_id, None)
        self._kept.discard(session_id)
        if session is not None:
            session.closed = True
            self._closed.append(session_id)

    def _expire(self) -> None:
        limit = self._now() - self._idle_s
        for session_id, session in list(self._sessions.items()):
            if session_id not in self._kept and session.used < limit and not session.lock.locked():
                del self._sessions[session_id]
