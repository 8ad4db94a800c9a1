"""One episode of an agent under way: its tokens, its budgets, and what it has earned."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from openrlhf.env.episode.budget import plan_budget
from openrlhf.env.episode.seeds import turn_seed
from openrlhf.env.episode.tokens import EpisodeTokens
from openrlhf.rollout.agent_sampling import own_copy
from openrlhf.rollout.step_result import StepResult
from openrlhf.types import Completion, RewardOutcome, SamplingParams, Segment, Trajectory

NUM_TURNS = "num_turns"  # an extra log of every episode


class Episode:
    """Begins with the observation of `reset`; `over` once no further action may be sampled."""

    def __init__(
        self, observation: str, label: str, sampling: SamplingParams, images: list[Any], max_length: int, tokenizer: Any
    ) -> None:
        """Of an observation too long for `max_length` beside one action, the end is kept, as for a single turn.

        ValueError if no token is left, or if images would be cut.
        """
        ids = tokenizer(observation, add_special_tokens=False)["input_ids"]
        budget = plan_budget(ids, sampling.max_tokens, max_length, has_images=bool(images))
        self._tokenizer = tokenizer
        self.tokens = EpisodeTokens(budget.prompt_token_ids)
        self.text = observation if len(budget.prompt_token_ids) == len(ids) else self._decode(budget.prompt_token_ids)
        self.label = label
        self.sampling = sampling
        self.images = images
        self.num_turns = 0
        self.over = False
        self._max_length = max_length
        self._truncated = False
        self._reward = 0.0
        self._score: float | None = None
        self._logs: dict[str, float] = {}

    def request(self) -> SamplingParams:
        """The parameters of the next action: at most its own max_tokens, at most what is left of the context."""
        room = self._max_length - len(self.tokens)
        limit = room if self.sampling.max_tokens is None else min(self.sampling.max_tokens, room)
        sampling = own_copy(self.sampling)
        return replace(sampling, max_tokens=limit, seed=turn_seed(sampling.seed, self.num_turns))

    def act(self, completion: Completion) -> str:
        """Take in a sampled action; returns its text, special tokens kept."""
        self.tokens.act(completion)
        self._truncated = completion.finish_reason == "length"
        self.num_turns += 1
        action = self._decode(completion.token_ids.tolist())
        self.text += action
        return action

    def answer(self, result: StepResult, per_turn: bool) -> None:
        """Take in the environment's answer to the last action."""
        self._reward += result.reward
        self._score = result.score if result.score is not None else self._score
        if per_turn:
            self.tokens.reward_last_turn(result.reward)
        self._add_logs(result.extra_logs)
        self.sampling = result.sampling
        self.images = [*self.images, *result.images]
        self.over = result.done
        if not result.done:
            self._observe(result.feedback)

    def outcome(self) -> RewardOutcome:
        score = self._reward if self._score is None else self._score
        return RewardOutcome(self._reward, score, extra_logs={NUM_TURNS: float(self.num_turns), **self._logs})

    def trajectory(self, outcome: RewardOutcome) -> Trajectory:
        segments: tuple[Segment, ...] = (self.tokens.segment(),) if self.tokens.has_actions else ()
        return Trajectory(segments, self._truncated, outcome)

    def _observe(self, feedback: str) -> None:
        """Append feedback; where it leaves no room for another action the episode is over, and cut short."""
        ids = self._tokenizer(feedback, add_special_tokens=False)["input_ids"] if feedback else []
        room = self._max_length - len(self.tokens)
        kept = ids[:room]
        self.tokens.observe(kept)
        self.text += feedback if len(kept) == len(ids) else self._decode(kept)
        if len(ids) >= room:
            self.over = self._truncated = True

    def _add_logs(self, logs: Mapping[str, float]) -> None:
        for name, value in logs.items():
            self._logs[name] = self._logs.get(name, 0.0) + value

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
