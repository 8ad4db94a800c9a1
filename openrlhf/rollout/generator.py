"""Turn prompts into groups of graded samples: executor, then reward, n samples of a prompt at once.

run_group: for each of n samples, concurrently
    executor.execute -> Trajectory -> (outcome of its own | reward.score) -> Rollout
"""

import asyncio
import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openrlhf.env.episode.images import images_before
from openrlhf.env.errors import EnvError
from openrlhf.env.task_rewards import TaskRewards
from openrlhf.interfaces import Executor, LLMEngine, RewardSource
from openrlhf.prompt_tokens import num_added
from openrlhf.reward.errors import RewardError
from openrlhf.rollout.agent_sampling import own_copy
from openrlhf.rollout.clock import BusyClock
from openrlhf.rollout.environments import Environments, LimitedEngine
from openrlhf.rollout.errors import AgentError, EngineDead, GenerationError
from openrlhf.rollout.failures import FailureLog
from openrlhf.rollout.trajectory_check import check_trajectory
from openrlhf.types import (
    Prompt,
    RewardOutcome,
    Rollout,
    RolloutGroup,
    RolloutStatus,
    SamplingParams,
    Segment,
    Trajectory,
)

STOPS_THE_RUN = (RewardError, EngineDead, GenerationError, EnvError, AgentError)


@dataclass(frozen=True, slots=True)
class GroupResult:
    """A finished group and how long its slowest sample took in either phase."""

    group: RolloutGroup
    generate_seconds: float
    reward_seconds: float


@dataclass(frozen=True, slots=True)
class _Sample:
    rollout: Rollout
    generate_seconds: float
    reward_seconds: float


class RolloutGenerator:
    """Runs samples on one engine."""

    def __init__(
        self,
        engine: LLMEngine,
        executor: Executor,
        reward: RewardSource | None,
        tokenizer: Any,
        max_length: int,
        tolerate_failures: bool = False,
        environments: Environments | None = None,
        max_generations: int | None = None,
        generation_timeout: float | None = None,
        tasks: TaskRewards | None = None,
    ) -> None:
        """`max_length`: tokens of prompt and response together. `reward` None: the executor gives every outcome.

        A prompt that names an environment runs in it instead of in `executor`; all of these episodes together ask the
        engine at most `max_generations` things at the same time, and get a TimeoutError where one of them takes longer
        than `generation_timeout` seconds.

        `tasks` grades the samples of prompts that name a task; an outcome that the executor gives goes before it.

        `tolerate_failures`: an exception in the executor leaves its sample ungraded instead of ending the run; meant
        for agents of users. Errors of the reward source and of the engine end the run either way.
        """
        self._engine = engine
        self._executor = executor
        self._reward = reward
        self._tokenizer = tokenizer
        self._max_length = max_length
        self._tolerate_failures = tolerate_failures
        self._environments = environments
        self._limited = LimitedEngine(engine, max_generations, generation_timeout)
        self._tasks = tasks
        self._generating = BusyClock()
        self._scoring = BusyClock()
        self.failures = FailureLog()

    @property
    def generate_seconds(self) -> float:
        """Wall seconds so far with at least one sample in its executor."""
        return self._generating.seconds

    @property
    def reward_seconds(self) -> float:
        """Wall seconds so far with at least one sample being scored."""
        return self._scoring.seconds

    async def run_group(
        self, prompt: Prompt, group_id: str, n: int, sampling: SamplingParams, seeds: Sequence[int | None]
    ) -> GroupResult:
        """Draw n samples of one prompt and score them; sample i gets its own copy of `sampling` with seeds[i].

        RewardError, EngineDead, GenerationError and AgentError are raised once the other samples have been cancelled.
        ValueError if there is not one seed per sample.
        """
        if len(seeds) != n:
            raise ValueError(f"group {group_id}: {n} samples but {len(seeds)} seeds")
        tasks = [
            asyncio.create_task(self._run_sample(prompt, group_id, index, own_copy(sampling, seed=seed)))
            for index, seed in enumerate(seeds)
        ]
        try:
            samples = await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        return GroupResult(
            RolloutGroup(group_id, tuple(sample.rollout for sample in samples)),
            max((sample.generate_seconds for sample in samples), default=0.0),
            max((sample.reward_seconds for sample in samples), default=0.0),
        )

    async def _run_sample(self, prompt: Prompt, group_id: str, index: int, sampling: SamplingParams) -> _Sample:
        sample_id = f"{group_id}/{index}"
        started = time.monotonic()
        with self._generating.running():
            trajectory = await self._execute(prompt, sampling)
        generated = time.monotonic()
        response = self._response(trajectory.segments)
        outcome = trajectory.outcome or await self._score(prompt, response, trajectory, sampling)
        if trajectory.facts:
            outcome = dataclasses.replace(outcome, extra_logs={**trajectory.facts, **outcome.extra_logs})
        rollout = Rollout(
            group_id=group_id,
            sample_id=sample_id,
            prompt=prompt,
            segments=trajectory.segments,
            outcome=outcome,
            truncated=trajectory.truncated,
            status=RolloutStatus.COMPLETE if trajectory.segments else RolloutStatus.ABORTED,
            response_text=response,
        )
        return _Sample(rollout, generated - started, time.monotonic() - generated)

    async def _execute(self, prompt: Prompt, sampling: SamplingParams) -> Trajectory:
        """Run the executor; a tolerated failure becomes a trajectory without segments, ungraded."""
        where = type(self._executor).__name__
        try:
            if prompt.env_func is None or self._environments is None:
                return await self._run(self._executor, self._engine, prompt, sampling)
            where = f"environment {prompt.env_func}"
            async with self._environments.episode(prompt.env_func) as executor:
                return await self._run(executor, self._limited, prompt, sampling)
        except STOPS_THE_RUN:
            raise
        except Exception as error:  # an agent's or an environment's own code, which may raise anything
            if not self._tolerate_failures and prompt.env_func is None:
                raise
            reason = self.failures.record(where, error)
            return Trajectory(segments=(), truncated=False, outcome=RewardOutcome.ungraded(reason))

    async def _run(self, executor: Executor, engine: LLMEngine, prompt: Prompt, sampling: SamplingParams) -> Trajectory:
        trajectory = await executor.execute(
            prompt.text,
            prompt.label,
            sampling,
            self._max_length,
            self._tokenizer,
            engine,
            images=prompt.images or None,
        )
        return check_trajectory(trajectory, type(executor).__name__, self._max_length, self._engine.image_tokens)

    async def _score(
        self, prompt: Prompt, response: str, trajectory: Trajectory, sampling: SamplingParams
    ) -> RewardOutcome:
        if prompt.task is not None and self._tasks is not None:
            with self._scoring.running():
                limit = sampling.max_tokens or self._max_length
                return await self._tasks.score(prompt, trajectory, response, limit)
        if self._reward is None:
            name = type(self._executor).__name__ if prompt.env_func is None else f"environment {prompt.env_func}"
            raise RewardError(
                f"{name} returned a trajectory without an outcome, its prompt names no task (docs/tasks.md), and this "
                "run has no reward source"
            )
        query = self._query(prompt, trajectory.segments[-1]) if trajectory.segments else ""
        with self._scoring.running():
            return await self._reward.score(query, prompt, response)

    def _response(self, segments: Sequence[Segment]) -> str:
        """The last segment from its first action on as text, special tokens kept."""
        if not segments:
            return ""
        segment = segments[-1]
        start = int(np.argmax(segment.action_mask)) if segment.num_actions else len(segment.token_ids)
        return self._text(segment, start)

    def _query(self, prompt: Prompt, segment: Segment) -> str:
        """Prompt and response as text."""
        return self._text(segment, num_added(self._tokenizer, prompt.text, segment.token_ids[:1].tolist()))

    def _text(self, segment: Segment, start: int) -> str:
        """The text from a token on; an image is one placeholder in it, as in the prompt's own text."""
        ids = segment.token_ids[start:].tolist()
        vision = self._engine.image_tokens if segment.images else None
        if vision is not None:
            before = images_before(vision, segment.token_ids[:start].tolist(), segment.images)
            ids = vision.fold(ids, segment.images[before:])
        # Cleaning up would change the text that is graded ("a , b" to "a, b").
        return self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
