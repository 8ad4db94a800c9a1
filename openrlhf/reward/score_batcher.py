"""Scoring the texts of concurrent requests together."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

Scores = tuple[np.ndarray, list[np.ndarray]]  # (rewards, each model's own), all of as many as there are texts
ScoreTexts = Callable[[Sequence[str]], Scores]


@dataclass(slots=True, eq=False)
class _Request:
    texts: list[str]
    answer: asyncio.Future[Scores]
    scored: list[Scores] = field(default_factory=list)  # of its first texts

    def rest(self) -> list[str]:
        return self.texts[sum(len(rewards) for rewards, _ in self.scored) :]


_Piece = tuple[_Request, list[str]]  # and the texts of it that are scored now


class ScoreBatcher:
    """Scores the texts of concurrent requests together, off the event loop. Starts with the first request.

    Requests are scored in the order in which they came, `at_once` texts at a time. A larger one is scored in pieces and
    lets the others go first between them. One whose client has left is dropped: its `submit` was cancelled.

    Args:
        score: runs in one thread, never twice at the same time.
        at_once: most texts in a call of `score`. A request waits for a call that runs, then for those before it.
    """

    def __init__(self, score: ScoreTexts, at_once: int) -> None:
        self._score = score
        self._at_once = at_once
        self._queue: deque[_Request] = deque()
        self._filled = asyncio.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="score")
        self._worker: asyncio.Task[None] | None = None
        self.waiting = 0  # texts

    async def submit(self, texts: list[str]) -> Scores:
        """Rewards of these texts, at least one, and each model's own scores. Raises what scoring them raised."""
        if self._worker is None:
            self._worker = asyncio.create_task(self._run())
        request = _Request(texts, asyncio.get_running_loop().create_future())
        self.waiting += len(texts)
        self._queue.append(request)
        self._filled.set()
        try:
            return await request.answer
        finally:
            self.waiting -= len(texts)

    async def close(self) -> None:
        """Drop what waits; a call that runs is not waited for."""
        if self._worker is not None:
            self._worker.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        while True:
            await self._filled.wait()
            pieces = self._take()
            if pieces:
                await self._answer(pieces)
            else:
                self._filled.clear()

    def _take(self) -> list[_Piece]:
        """What is scored next: whole requests, or a piece of one that is too large. Nothing: the queue is empty."""
        pieces: list[_Piece] = []
        room = self._at_once
        while self._queue and room:
            texts = self._queue[0].rest()
            if pieces and len(texts) > room:
                break
            request = self._queue.popleft()
            if not request.answer.done():
                pieces.append((request, texts[:room]))
                room -= len(pieces[-1][1])
        return pieces

    async def _answer(self, pieces: Sequence[_Piece]) -> None:
        texts = [text for _, own in pieces for text in own]
        try:
            rewards, parts = await asyncio.get_running_loop().run_in_executor(self._thread, self._score, texts)
        except Exception as error:  # one bad text must end neither the server nor the requests of others
            if len(pieces) > 1:
                for piece in pieces:
                    if not piece[0].answer.done():
                        await self._answer([piece])
            elif not pieces[0][0].answer.done():
                pieces[0][0].answer.set_exception(error)
            return
        start = 0
        for request, own in pieces:
            end = start + len(own)
            self._hand_out(request, (rewards[start:end], [part[start:end] for part in parts]))
            start = end

    def _hand_out(self, request: _Request, scores: Scores) -> None:
        request.scored.append(scores)
        if request.answer.done():
            return
        if request.rest():
            self._queue.append(request)
            return
        rewards, parts = zip(*request.scored, strict=True)
        request.answer.set_result((np.concatenate(rewards), [np.concatenate(own) for own in zip(*parts, strict=True)]))
