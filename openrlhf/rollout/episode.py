"""One episode of an agent under way: its tokens, its budgets, and what it has earned."""

from collections.abc import Mapping, Sequence
from typing import Any

from openrlhf.env.episode.budget import plan_budget
from openrlhf.env.episode.images import expanded
from openrlhf.env.episode.seeds import turn_seed
from openrlhf.env.episode.tokens import EpisodeTokens
from openrlhf.interfaces import LLMEngine
from openrlhf.prompt_tokens import num_added, opening_id, prompt_ids
from openrlhf.rollout.agent_sampling import own_copy
from openrlhf.rollout.running_text import RunningText
from openrlhf.rollout.step_result import StepResult
from openrlhf.types import FLOAT32_MAX, Completion, EncodedImage, RewardOutcome, SamplingParams, Segment, Trajectory

NUM_TURNS = "num_turns"  # an extra log of every episode


class Episode:
    """Begins with the observation of `reset`; `over` once no further action may be sampled."""

    def __init__(
        self,
        observation: str,
        label: str,
        sampling: SamplingParams,
        images: Sequence[EncodedImage],
        max_length: int,
        tokenizer: Any,
        engine: LLMEngine,
    ) -> None:
        """Of an observation too long for `max_length` beside one action, the end is kept, as for a single turn.

        In a run with images each `<image>` in the observation, as in feedback, is an image.

        ValueError if no token is left, if images would be cut, or if the observation has not one placeholder for each.
        """
        observation = _marked(engine, observation)
        ids = expanded(engine, prompt_ids(tokenizer, observation), images)
        opening = opening_id(tokenizer)
        budget = plan_budget(ids, sampling.max_tokens, max_length, has_images=bool(images), opening=opening)
        self._tokenizer = tokenizer
        self._engine = engine
        self.tokens = EpisodeTokens(budget.prompt_token_ids)
        kept = list(budget.prompt_token_ids)
        uncut = len(kept) == len(ids)
        added = num_added(tokenizer, observation, kept)
        self._text = RunningText(self._decode, kept, observation if uncut else self._decode(kept[added:]))
        self.label = label
        self.sampling = sampling
        self.images = list(images)
        self.num_turns = 0
        self.over = False
        self.too_many_images: str | None = None  # how many, where feedback was left out for their number
        self._max_length = max_length
        self._truncated = False
        self._asked_with = 0  # tokens that the last action was sampled after
        self._reward = 0.0
        self._score: float | None = None
        self._logs: dict[str, float] = {}

    @property
    def text(self) -> str:
        """All text so far, special tokens kept."""
        return self._text.whole

    def request(self) -> SamplingParams:
        """The parameters of the next action: at most its own max_tokens, at most what is left of the context.

        A `min_tokens` of more than that is what is left, so that the action is cut short, not refused by the engine.
        """
        room = self._max_length - len(self.tokens)
        limit = room if self.sampling.max_tokens is None else min(self.sampling.max_tokens, room)
        least = min(self.sampling.min_tokens, limit)
        seed = turn_seed(self.sampling.seed, self.num_turns)
        return own_copy(self.sampling, max_tokens=limit, min_tokens=least, seed=seed)

    def act(self, completion: Completion) -> str:
        """Take in a sampled action; returns the text that it adds, special tokens kept."""
        self._asked_with = len(self.tokens)
        self.tokens.act(completion)
        self._truncated = completion.finish_reason == "length"
        self.num_turns += 1
        return self._text.act(completion.token_ids.tolist())

    def answer(self, result: StepResult, images: Sequence[EncodedImage], per_turn: bool) -> None:
        """Take in the environment's answer to the last action, whose feedback shows these images.

        Where neither added a token, the next action would be asked for with the same context, maybe for ever: the
        episode is over, and cut short.
        """
        self._reward += result.reward
        self._score = result.score if result.score is not None else self._score
        if per_turn:
            self.tokens.reward_last_turn(result.reward)
        self._add_logs(result.extra_logs)
        self.sampling = result.sampling
        self.over = result.done
        feedback = _marked(self._engine, result.feedback)
        if not result.done and images:
            self._see(feedback, images)
        elif not result.done:
            self._observe(feedback)
        if not self.over and len(self.tokens) == self._asked_with:
            self.over = self._truncated = True

    def outcome(self) -> RewardOutcome:
        score = self._reward if self._score is None else self._score
        if abs(self._reward) > FLOAT32_MAX:
            return RewardOutcome.ungraded(f"the rewards of {self.num_turns} turns add up to {self._reward:g}")
        return RewardOutcome(self._reward, score, extra_logs={NUM_TURNS: float(self.num_turns), **self._logs})

    def trajectory(self, outcome: RewardOutcome) -> Trajectory:
        segments: tuple[Segment, ...] = (self.tokens.segment(self.images),) if self.tokens.has_actions else ()
        return Trajectory(segments, self._truncated, outcome)

    def _observe(self, feedback: str) -> None:
        """Append feedback; where it leaves no room for another action the episode is over, and cut short.

        ValueError where it has the placeholder of an image that is not there.
        """
        ids = self._tokenizer(feedback, add_special_tokens=False)["input_ids"] if feedback else []
        ids = expanded(self._engine, ids, ())
        room = self._max_length - len(self.tokens)
        kept = ids[:room]
        self.tokens.observe(kept)
        self._text.observe(kept)
        if len(ids) >= room:
            self.over = self._truncated = True

    def _see(self, feedback: str, images: Sequence[EncodedImage]) -> None:
        """Append feedback that shows images; where they do not all fit, or would be too many, none of it is appended,
        and the episode is over and cut short.

        ValueError where the feedback has not one placeholder for each image.
        """
        vision = self._engine.image_tokens
        ids = expanded(self._engine, self._tokenizer(feedback, add_special_tokens=False)["input_ids"], images)
        shown = len(self.images) + len(images)
        if vision is not None and shown > vision.max_images:
            self.too_many_images = f"{shown} images, and --data.max_images_per_prompt is {vision.max_images}"
        if self.too_many_images is not None or len(ids) >= self._max_length - len(self.tokens):
            self.over = self._truncated = True
            return
        self.tokens.observe(ids)
        self._text.observe(ids, feedback)
        self.images = [*self.images, *images]  # the engine may still hold the list it was given

    def _add_logs(self, logs: Mapping[str, float]) -> None:
        for name, value in logs.items():
            self._logs[name] = self._logs.get(name, 0.0) + value

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def _marked(engine: LLMEngine, text: str) -> str:
    """The text with the model's own placeholder for each `<image>`; unchanged in a run that shows no images."""
    vision = engine.image_tokens
    return text if vision is None or vision.max_images == 0 else vision.mark(text)
