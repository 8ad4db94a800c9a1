"""Generation in a thread of its own: the engines never wait for a batch, and training never waits for the last group.

    admit prompts -> engines -> filter -> buffer -> (the training loop takes the oldest rollout batch)

Bound. Groups in flight and in the buffer together are at most

    train.async_queue_size * rollout.batch_size + (rollout.vllm_generate_batch_size - rollout.batch_size)

so a group that is never overtaken is trained on at most async_queue_size updates after it was sampled, plus
ceil((vllm_generate_batch_size - batch_size) / batch_size). `train.max_staleness` holds for all: what is older is
dropped, its prompt drawn once more, and given up (stale in the ledger) if that comes too late as well.

One lock guards the books: loader, ledger, buffer. Only this thread calls the engines, but for weight updates.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openrlhf.cluster.specs import GroupRequest
from openrlhf.data.ledger import PromptState
from openrlhf.pipeline.clock import IdleClock
from openrlhf.pipeline.collect import take_group
from openrlhf.pipeline.evaluate import EvaluationInFlight
from openrlhf.pipeline.fate import refused
from openrlhf.pipeline.job import Job
from openrlhf.pipeline.sampling import filter_groups
from openrlhf.pipeline.snapshot import Snapshot
from openrlhf.pipeline.stages import group_requests, training_params
from openrlhf.pipeline.weights import revive
from openrlhf.pipeline.work_buffer import Batch, Waiting, WorkBuffer, staleness_metrics
from openrlhf.types import Prompt, RolloutGroup

_POLL = 0.2  # seconds that the thread looks at the engines before it looks at the books again


class Sampler:
    """Use it as a context manager: the thread ends with the block."""

    def __init__(self, job: Job, waiting: Sequence[Waiting] = (), redraw: Sequence[tuple[int, Prompt]] = ()) -> None:
        """`waiting` and `redraw`: what a resumed run had finished, and what it had begun."""
        rollout, train = job.config.rollout, job.config.train
        self._job = job
        self._batch_size = rollout.batch_size
        oversampled = (rollout.vllm_generate_batch_size or rollout.batch_size) - rollout.batch_size
        self._capacity = train.async_queue_size * rollout.batch_size + oversampled
        self._buffer = WorkBuffer(waiting)
        self._redraw = list(redraw)  # (episode, prompt) to generate before the loader is asked for more
        self._in_flight: dict[str, tuple[int, Prompt]] = {}  # by group id
        self._dropped: list[RolloutGroup] = []
        self._stale = 0
        self._training = False  # the training loop has a batch of the step that is not finished yet
        self._last_take = time.monotonic()
        self._evaluation: EvaluationInFlight | None = None
        self._failure: BaseException | None = None
        self._stopping = False
        self._idle = IdleClock()
        self._books = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        with self._books:
            self._stopping = True
            self._books.notify_all()
        self._thread.join(timeout=60)

    def take(self) -> Batch | None:
        """The oldest rollout batch; a smaller last one at the end of the data; None when there is nothing left.

        Raises whatever ended the generation.
        """
        start = time.monotonic()
        with self._books:
            self._training = False
        self._wait_until(self._has_batch)
        with self._books:
            depth = len(self._buffer)
            taken = self._buffer.take(self._batch_size)
            dropped, self._dropped = self._dropped, []
            if not taken and not dropped:
                return None
            metrics = self._metrics(taken, depth, time.monotonic() - start)
            self._training = True
            self._books.notify_all()
        return Batch(taken, dropped, metrics)

    def settle(self, taken: Sequence[Waiting], fates: Mapping[str, PromptState]) -> None:
        """The taken groups are done with; their fates by group id."""
        with self._books:
            for waiting in taken:
                self._move(waiting.episode, waiting.prompt_id, fates[waiting.group.group_id])

    def evaluate(self, requests: Sequence[GroupRequest]) -> list[RolloutGroup]:
        """Run requests beside the training samples; groups in the order of the requests."""
        with self._books:
            self._evaluation = evaluation = EvaluationInFlight(requests)
            self._books.notify_all()
        self._wait_until(lambda: len(evaluation.groups) == len(requests))
        with self._books:
            self._evaluation = None
        return [evaluation.groups[request.group_id] for request in requests]

    def snapshot(self) -> Snapshot:
        """The job's books and the finished groups, of one moment."""
        with self._books:
            return Snapshot(self._job.state_dict(), self._buffer.waiting())

    def _wait_until(self, done: Callable[[], bool]) -> None:
        """The training loop waits here, the policy at rest; engines that were replaced get its weights meanwhile."""
        while True:
            revive(self._job)
            with self._books:
                self._check()
                if done():
                    return
                self._books.wait(_POLL)

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._admit()
                if self._job.cluster.engines.in_flight:
                    self._receive()
                else:
                    with self._books:
                        if not (self._stopping or self._wants_work()):
                            self._idle.begin()
                            self._books.wait(_POLL)
        except BaseException as error:  # the training thread raises it
            with self._books:
                self._failure = error
                self._books.notify_all()

    def _admit(self) -> None:
        """Start what the bound allows."""
        with self._books:
            requests: list[GroupRequest] = []
            evaluation = self._evaluation
            if evaluation is not None and not evaluation.submitted:
                evaluation.submitted = True
                requests += evaluation.requests
            while self._has_room() and (drawn := self._draw()) is not None:
                episode, prompt = drawn
                self._move(episode, prompt.prompt_id, PromptState.IN_FLIGHT)
                n = self._job.config.rollout.n_samples_per_prompt
                (request,) = group_requests(self._job, [prompt], n, training_params(self._job), self._job.draws)
                self._job.draws += 1
                self._in_flight[request.group_id] = drawn
                requests.append(request)
            if requests:
                self._idle.end()
                self._job.cluster.engines.submit(requests)

    def _receive(self) -> None:
        """Book the next finished group, if one finishes soon."""
        group = take_group(self._job, _POLL)
        if group is None:
            return
        with self._books:
            if group.group_id not in self._in_flight:
                if self._evaluation is not None:
                    self._evaluation.groups[group.group_id] = group
            else:
                self._book(group, *self._in_flight.pop(group.group_id))
            self._books.notify_all()

    def _book(self, group: RolloutGroup, episode: int, prompt: Prompt) -> None:
        if not self._job.config.algo.dynamic_filtering_enable or filter_groups(self._job, [group]).kept:
            self._move(episode, prompt.prompt_id, PromptState.BUFFERED)
            self._buffer.put(Waiting(group, episode))
            return
        self._move(episode, prompt.prompt_id, refused(group))
        self._dropped.append(group)

    # Whoever calls one of the following holds the lock.

    def _draw(self) -> tuple[int, Prompt] | None:
        if self._redraw:
            return self._redraw.pop(0)
        for prompt in self._job.loader.draw(1):
            self._job.ledger.draw(self._job.loader.episode, [prompt.prompt_id])
            return self._job.loader.episode, prompt
        return None

    def _has_room(self) -> bool:
        """Within the bound, and within what the rest of the run can train on."""
        begun = len(self._buffer) + len(self._in_flight)
        steps_left = self._job.length.steps - self._job.step - self._training
        return begun < min(self._capacity, steps_left * self._batch_size)

    def _wants_work(self) -> bool:
        evaluation = self._evaluation
        if evaluation is not None and not evaluation.submitted:
            return True
        return self._has_room() and bool(self._redraw or not self._job.loader.finished)

    def _has_batch(self) -> bool:
        """A whole batch of groups that are not too old, or all that will ever be."""
        self._discard_stale()
        return len(self._buffer) >= self._batch_size or not (self._in_flight or self._wants_work())

    def _discard_stale(self) -> None:
        bound = self._job.config.train.max_staleness
        if bound is None:
            return
        for waiting in self._buffer.discard_stale(self._job.version, bound):
            key = waiting.episode, waiting.prompt_id
            self._stale += 1
            self._move(*key, PromptState.STALE)
            if key not in self._job.redrawn:
                self._job.redrawn.add(key)
                self._move(*key, PromptState.DRAWN)
                self._redraw.append((waiting.episode, waiting.group.rollouts[0].prompt))
            self._books.notify_all()

    def _move(self, episode: int, prompt_id: int, state: PromptState) -> None:
        self._job.ledger.move(episode, [prompt_id], state)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if not self._thread.is_alive():
            raise RuntimeError("the sampler has ended")

    def _metrics(self, taken: Sequence[Waiting], depth: int, waited: float) -> dict[str, float]:
        stale, self._stale = self._stale, 0
        now, idle = time.monotonic(), self._idle.lap()
        lap, self._last_take = max(now - self._last_take, 1e-9), now
        return staleness_metrics(taken, self._job.version) | {
            "async/stale_groups": float(stale),
            "async/queue_depth": float(depth),
            "async/trainer_idle_seconds": waited,
            "async/sampler_idle_seconds": idle,
            "async/overlap": max(0.0, 1.0 - (waited + idle) / lap),
        }
