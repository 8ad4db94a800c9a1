"""Training an agent that only knows an OpenAI-style address.

Subclass `OpenAIServerAgentExecutor`, write `run_agent`, and give the file to --train.agent_func_path; docs/agents.md
and examples/python/agent_func_openai_server_executor.py show how.
"""

import asyncio
import itertools
import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from openrlhf.interfaces import LLMEngine
from openrlhf.reward.normalise import as_float32, kind_of, number_of
from openrlhf.reward.tally import Tally
from openrlhf.rollout.agent import AgentExecutorBase
from openrlhf.rollout.agent_call import call_agent
from openrlhf.rollout.agent_sampling import own_copy
from openrlhf.rollout.errors import AgentError, AgentReturnError
from openrlhf.rollout.openai_server.refusal import is_refusal
from openrlhf.rollout.openai_server.server import AgentServer
from openrlhf.rollout.openai_server.session import Session
from openrlhf.rollout.openai_server.template import ChatTemplate
from openrlhf.rollout.step_result import read_logs
from openrlhf.types import RewardOutcome, SamplingParams, Status, Trajectory

logger = logging.getLogger(__name__)


class OpenAIServerAgentExecutor(AgentExecutorBase):
    """Serves the engine on this machine's loopback and runs one `run_agent` per sample, each in a session of its own.

    Every conversation of a session becomes a segment of the sample's trajectory, with the ids and log-probabilities as
    they were sampled. The sample is truncated where its last answer ended for length or did not fit any more.

    A conversation that outgrows the context is refused with OpenAI's `context_length_exceeded`. Where `run_agent`
    raises by that, the policy has failed: reward 0, for what it sampled up to there.
    """

    def __init__(self, *, timeout_s: float | None = 1800.0) -> None:
        """`timeout_s`: seconds for one `run_agent`; None: no limit."""
        self._timeout_s = timeout_s
        self._server: AgentServer | None = None
        self._starting = asyncio.Lock()
        self._numbers = itertools.count()
        self._opening: str | None = None  # of the assistant's turn in the chat template
        self._tally = Tally()

    @abstractmethod
    async def run_agent(
        self,
        *,
        prompt: str,
        label: str,
        base_url: str,
        session_id: str,
        images: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> Mapping[str, Any]:
        """Solve one task by talking to the policy, and judge the result.

        Args:
            base_url: for the OpenAI client, any API key will do; whatever is asked there belongs to this sample.
            session_id: for clients of the plain address, as the body's `session_id`.

        Returns:
            {"reward": number, "scores": number (default: the reward), "extra_logs": {name: number}}
        """

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
        """Run one sample. What `run_agent` raises leaves it ungraded, unless its last request did not fit into the
        context; what broke the engine ends the run."""
        server = await self._started(llm_engine, hf_tokenizer, max_length)
        self._warn_of_a_second_template(prompt, server.template)
        session_id = f"sample-{next(self._numbers)}"
        session = Session(own_copy(sampling_params), max_length, sample=session_id)
        server.sessions.open(session_id, session)
        name = f"{type(self).__name__}.run_agent"
        try:
            raw = await call_agent(
                lambda: self.run_agent(
                    prompt=prompt,
                    label=label,
                    base_url=server.base_url(session_id),
                    session_id=session_id,
                    images=images,
                    sampling_params=own_copy(sampling_params),
                ),
                self._timeout_s,
                name,
            )
            outcome = self._outcome(raw, name)
        except Exception as error:  # what the agent makes of an engine's failure hides the failure itself
            if session.failure is not None:
                raise session.failure from None
            if not (session.outgrown and is_refusal(error, session_id)):
                raise
            outcome = RewardOutcome(0.0, 0.0, Status.FAILED, f"{name} was cut short: {session.outgrown}")
        finally:
            server.sessions.close(session_id)
        if session.failure is not None:
            raise session.failure
        self._warn_of_another_distribution(session)
        if session.aborted:
            outcome = RewardOutcome.ungraded("generation aborted")
        return Trajectory(session.segments(), session.truncated, outcome)

    def check(self, tokenizer: Any) -> None:
        """AgentError for a model without a chat template that can be used. Asked before a run starts too."""
        try:
            ChatTemplate(tokenizer)
        except ValueError as error:
            raise AgentError(f"{type(self).__name__}: {error}") from error

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()
            self._server = None

    async def _started(self, engine: LLMEngine, tokenizer: Any, max_length: int) -> AgentServer:
        async with self._starting:
            if self._server is None:
                self.check(tokenizer)
                server = AgentServer(engine, tokenizer, max_length)
                await server.start()
                logger.info("OpenAI-style server of %s at %s", type(self).__name__, server.address)
                self._server = server
        return self._server

    def _warn_of_another_distribution(self, session: Session) -> None:
        if session.other_distribution:
            self._tally.warn_once(
                "distribution",
                f"{type(self).__name__} asked for {session.other_distribution}: in training, the log-probabilities of "
                "such answers belong to another distribution than the trainer computes with --rollout.temperature, "
                "and at temperature 0 all samples of a prompt are alike, with nothing to learn from; leave both out",
            )

    def _warn_of_a_second_template(self, prompt: str, template: ChatTemplate) -> None:
        if self._opening is None:
            self._opening = template.opening()
        if self._opening and prompt.rstrip().endswith(self._opening):
            self._tally.warn_once(
                "template",
                f"the prompts end with {self._opening!r}, so the chat template is in them already, and the server "
                "applies it once more: leave --data.apply_chat_template out",
            )

    def _outcome(self, raw: Any, name: str) -> RewardOutcome:
        if not isinstance(raw, Mapping) or not {"reward", "rewards"} & set(raw):
            raise AgentReturnError(
                f"{name} returned {kind_of(raw)}; expected a dict with reward, scores and extra_logs"
            )
        reward = _number(raw.get("reward", raw.get("rewards")), "reward", name)
        score = reward if raw.get("scores") is None else _number(raw["scores"], "scores", name)
        logs = read_logs(raw.get("extra_logs"), name, self._tally)
        try:
            return RewardOutcome(reward, score, extra_logs=logs)
        except ValueError:  # None, NaN or infinity
            return RewardOutcome.ungraded(f"{name} gave None, NaN or infinity as its reward or score")


def _number(value: Any, key: str, name: str) -> float:
    number = number_of(value)
    if number is None:
        raise AgentReturnError(f"{name} returned {key} {kind_of(value)}; expected one number")
    return as_float32(number)
