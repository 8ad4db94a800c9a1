"""The executor of multi-turn agents: the policy acts, the environment answers, until one of them is done.

    reset -> observation
    repeat: policy samples an action -> step -> reward, feedback   (feedback becomes part of the next prompt)

Prompt, actions and feedback are one token trajectory, so every algorithm and pipeline takes it like a single response.
docs/agents.md is the guide for users.
"""

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from openrlhf.interfaces import LLMEngine
from openrlhf.reward.tally import Tally
from openrlhf.rollout.agent import AgentExecutorBase, AgentInstanceBase
from openrlhf.rollout.agent_call import call_agent
from openrlhf.rollout.agent_sampling import own_copy, same_distribution
from openrlhf.rollout.episode import Episode
from openrlhf.rollout.failures import FailureLog
from openrlhf.rollout.step_result import StepResult, read_reset, read_shown, read_step
from openrlhf.types import EncodedImage, RewardOutcome, SamplingParams, Trajectory

CLOSE_S = 10.0  # an environment that does not close within this time is left alone


class MultiTurnAgentExecutor(AgentExecutorBase):
    """Runs one fresh instance of an agent per sample.

    Budgets, both kept: an action has at most the `max_tokens` of its turn's sampling parameters
    (--rollout.max_new_tokens unless the agent says otherwise), the whole trajectory at most --data.max_len tokens.

    The episode is truncated where its last action ended for length, or where the context was full before the
    environment was done; feedback that does not fit is cut, and left out whole where it shows images. Feedback after
    `done` is not appended. Where an action has no token and its step gives no feedback, the episode ends too,
    truncated: the next request would be the same one.

    Reward: the sum of the steps' `rewards`. Score: the last `scores` that a step gave, else that sum. Extra logs: the
    sum over the steps that gave the name; `num_turns` counts the actions.

    A call of the agent that raises, overruns its time or returns a wrong form leaves its sample without a verdict, and
    so does a reward that is None or NaN; no other sample is touched. `failures` counts them.
    """

    def __init__(
        self,
        agent_instance_cls: type[AgentInstanceBase],
        *,
        timeout_s: float | None = 600.0,
        per_turn_rewards: bool = False,
    ) -> None:
        """`timeout_s`: seconds for each call of `reset` or `step`, and for reading a step's images; None: no limit.

        `per_turn_rewards`: keep each step's reward at its action's last token, so that only what comes before it is
        credited with it, instead of giving the sum to the last action token of all.
        """
        if not (isinstance(agent_instance_cls, type) and issubclass(agent_instance_cls, AgentInstanceBase)):
            raise TypeError(f"MultiTurnAgentExecutor needs a subclass of AgentInstanceBase, not {agent_instance_cls!r}")
        self._agent = agent_instance_cls
        self._name = agent_instance_cls.__name__
        self._timeout_s = timeout_s
        self._per_turn_rewards = per_turn_rewards
        self._tally = Tally()
        self.failures = FailureLog()

    async def execute(
        self,
        prompt: str,
        label: str,
        sampling_params: SamplingParams,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: LLMEngine,
        images: Sequence[Any] | None = None,
    ) -> Trajectory:
        """Run one episode. Errors of the engine are raised; those of the agent are in the outcome."""
        agent: AgentInstanceBase | None = None
        episode: Episode | None = None
        try:
            agent = await self._call("__init__", self._agent)
            sampling, shown = own_copy(sampling_params), list(images or ())
            observation = await self._reset(agent, prompt, label, sampling, shown)
            with self._attributed("reset"):
                episode = Episode(observation, label, sampling, shown, max_length, hf_tokenizer, llm_engine)
            while not episode.over:
                self._warn_of_another_distribution(episode.sampling, sampling_params)
                await self._turn(agent, episode, llm_engine)
        except _NoVerdict as failure:
            outcome = RewardOutcome.ungraded(failure.reason)
            return Trajectory((), truncated=False, outcome=outcome) if episode is None else episode.trajectory(outcome)
        finally:
            if agent is not None:
                await self._close(agent)
        return episode.trajectory(episode.outcome())

    async def _reset(
        self, agent: AgentInstanceBase, prompt: str, label: str, sampling: SamplingParams, images: list[EncodedImage]
    ) -> str:
        states = {"observation": prompt, "label": label, "images": list(images), "sampling_params": sampling}
        raw = await self._call("reset", lambda: agent.reset(states))
        with self._attributed("reset"):
            return read_reset(raw, self._name, self._tally)

    async def _turn(self, agent: AgentInstanceBase, episode: Episode, engine: LLMEngine) -> None:
        """One action of the policy and the environment's answer."""
        states: dict[str, Any] = {"observation_text": episode.text, "turn": episode.num_turns}
        completion = await engine.generate(episode.tokens.ids, episode.request(), episode.images or None)
        states |= {"action_text": episode.act(completion), "finish_reason": completion.finish_reason}
        if completion.finish_reason == "aborted":
            raise _NoVerdict("generation aborted")
        states |= {"label": episode.label, "images": list(episode.images), "sampling_params": episode.sampling}
        raw = await self._call("step", lambda: agent.step(states))
        with self._attributed("step"):
            result = read_step(raw, episode.sampling, self._name, self._tally)
        self._require_verdict(result)
        images = await self._shown(result)
        with self._attributed("step"):
            episode.answer(result, images, self._per_turn_rewards)
        if episode.too_many_images is not None:
            self._tally.warn_once(
                "images",
                f"{self._name}.step: an episode is cut short at turn {episode.num_turns}: with this feedback it would "
                f"show {episode.too_many_images}; raise it to the images of prompt and turns together (told once)",
            )

    async def _shown(self, result: StepResult) -> tuple[EncodedImage, ...]:
        """Images of the feedback, read in a thread: this loop serves all other samples, and a server may be slow."""
        if result.images is None:
            return ()
        images: tuple[EncodedImage, ...] = await self._call(
            "step's environment_images", lambda: asyncio.to_thread(read_shown, result, self._name)
        )
        return images

    def _require_verdict(self, result: StepResult) -> None:
        if math.isnan(result.reward) or (result.score is not None and math.isnan(result.score)):
            reason = f"{self._name}.step gave None, NaN or infinity as its reward or score"
            self._tally.ungraded("nan", reason)
            raise _NoVerdict(reason)

    async def _close(self, agent: AgentInstanceBase) -> None:
        """An environment that does not close well keeps its episode's verdict."""
        if type(agent).close is AgentInstanceBase.close:
            return
        try:
            await call_agent(agent.close, CLOSE_S, f"{self._name}.close")
        except Exception as error:
            self.failures.record(f"{self._name}.close", error, "an agent was not closed")

    async def _call(self, method: str, call: Callable[[], Any]) -> Any:
        with self._attributed(method):
            return await call_agent(call, self._timeout_s, f"{self._name}.{method}")

    @contextmanager
    def _attributed(self, method: str) -> Iterator[None]:
        """Whatever goes wrong inside is the agent's, and its sample's alone."""
        try:
            yield
        except Exception as error:
            raise _NoVerdict(self.failures.record(f"{self._name}.{method}", error)) from error

    def _warn_of_another_distribution(self, now: SamplingParams, given: SamplingParams) -> None:
        if not same_distribution(now, given):
            self._tally.warn_once(
                "distribution",
                f"{self._name} changed temperature, top_p, logit_bias or structured_outputs: the log-probabilities of "
                "such turns belong to another distribution than the trainer computes with --rollout.temperature",
            )


class _NoVerdict(Exception):
    """The episode ends without a verdict."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
