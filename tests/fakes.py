"""Stand-ins for the parts that unit tests must not start."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from openrlhf.rl.metrics import MetricSum, PolicyStep
from openrlhf.types import (
    Completion,
    FinishReason,
    MicroBatch,
    Prompt,
    RewardOutcome,
    Rollout,
    RolloutGroup,
    SamplingParams,
    Segment,
)

FAKE_EOS_ID = 0


class FakeTokenizer:
    """One token per character: its code point. The pad token is the eos token, id 0, written `<eos>`."""

    eos_token, pad_token = "<eos>", "<eos>"
    eos_token_id = pad_token_id = FAKE_EOS_ID
    bos_token_id: int | None = None  # though it puts one in front: prompts of most tests are their characters
    all_special_tokens: Sequence[str] = ("<eos>", "<bos>")
    added_tokens_decoder: ClassVar[dict[int, Any]] = {}

    def __call__(
        self, text: str, add_special_tokens: bool = True, split_special_tokens: bool = False
    ) -> dict[str, list[int]]:
        ids = [ord(character) for character in text]
        return {"input_ids": [1, *ids] if add_special_tokens else ids}

    def decode(
        self,
        token_ids: Sequence[int],
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> str:
        if skip_special_tokens:
            token_ids = [token for token in token_ids if token > 1]
        return "".join({0: self.eos_token, 1: "<bos>"}.get(token) or chr(token) for token in token_ids)


def completion(
    text: str, *, eos: bool = True, finish_reason: FinishReason | None = None, version: int = 0
) -> Completion:
    """A completion of FakeTokenizer's characters; logprobs are -0.5, -1.0, -1.5, ..."""
    token_ids = np.array([*(ord(character) for character in text), *([FAKE_EOS_ID] if eos else [])], dtype=np.int64)
    logprobs = -0.5 * np.arange(1, len(token_ids) + 1, dtype=np.float32)
    return Completion(
        token_ids, logprobs, finish_reason or ("stop" if eos else "length"), np.full(len(token_ids), version, np.int32)
    )


class FakeImageTokens:
    """Implements ImageTokens over FakeTokenizer: an image is `#`, and its tokens are `(###)`, one # per 10 pixels of
    width."""

    token = "#"
    banned_ids = (ord("#"),)

    def __init__(self, max_images: int = 8) -> None:
        self.max_images = max_images

    def mark(self, text: str) -> str:
        return text.replace("<image>", self.token)

    def expand(self, token_ids: Sequence[int], images: Sequence[Any]) -> list[int]:
        text = "".join(map(chr, token_ids))
        if text.count("#") != len(images):
            raise ValueError(f"{text.count('#')} placeholders for {len(images)} images")
        pieces = text.split("#")
        tokens = [self._tokens(image) for image in images]
        return [ord(c) for c in pieces[0] + "".join(a + b for a, b in zip(tokens, pieces[1:], strict=True))]

    def fold(self, token_ids: Sequence[int], images: Sequence[Any]) -> list[int]:
        rest, folded = "".join(map(chr, token_ids)), ""
        for image in images:
            before, found, rest = rest.partition(self._tokens(image))
            if not found or "#" in before:
                raise ValueError("the tokens of an image are not where they belong")
            folded += before + "#"
        if "#" in rest:
            raise ValueError("more image tokens than those of the images")
        return [ord(character) for character in folded + rest]

    @staticmethod
    def _tokens(image: Any) -> str:
        return f"({'#' * (image.decode().width // 10)})"


@dataclass
class EngineCall:
    prompt_token_ids: list[int]
    sampling: SamplingParams
    images: Sequence[Any] | None


@dataclass
class ScriptedEngine:
    """Implements LLMEngine from a script: called with the call, answers a completion or raises.

    `calls` records what was asked; `most_at_once` how many requests overlapped.
    """

    script: Callable[[EngineCall], Completion | Exception]
    image_tokens: FakeImageTokens | None = None
    calls: list[EngineCall] = field(default_factory=list)
    most_at_once: int = 0
    _active: int = 0

    async def generate(
        self, prompt_token_ids: Sequence[int], sampling_params: SamplingParams, images: Sequence[Any] | None = None
    ) -> Completion:
        call = EngineCall(list(prompt_token_ids), sampling_params, images)
        self.calls.append(call)
        self._active += 1
        self.most_at_once = max(self.most_at_once, self._active)
        try:
            await asyncio.sleep(0)
            answer = self.script(call)
        finally:
            self._active -= 1
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class ScriptedReward:
    """Implements RewardSource from a function of (query, prompt, response)."""

    script: Callable[[str, Prompt, str], RewardOutcome | Exception]
    calls: list[tuple[str, Prompt, str]] = field(default_factory=list)

    async def score(self, query: str, prompt: Prompt, response: str) -> RewardOutcome:
        self.calls.append((query, prompt, response))
        await asyncio.sleep(0)
        answer = self.script(query, prompt, response)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        """Nothing to close."""


@dataclass
class ScriptedRunner:
    """Implements CodeRunner from a function of the program. `failures` are raised first, one per call."""

    script: Callable[[str], Any]
    programs: list[str] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    most_at_once: int = 0
    closed: bool = False
    _active: int = 0

    async def run(self, code: str) -> Any:
        self.programs.append(code)
        self._active += 1
        self.most_at_once = max(self.most_at_once, self._active)
        try:
            await asyncio.sleep(0)
        finally:
            self._active -= 1
        if self.failures:
            raise self.failures.pop(0)
        return self.script(code)

    async def close(self) -> None:
        self.closed = True


class TorchBackend:
    """A training backend of plain torch with SGD, of one process (see openrlhf/train/backend.py)."""

    def __init__(self, model: Any, runner: Any = None) -> None:
        self.model = model
        self._runner = runner or model
        self.device = next(model.parameters()).device
        self.calls: list[dict[str, Any]] = []
        self.last_marks: list[bool] = []

    def outputs(self, **inputs: Any) -> Any:
        self.calls.append(inputs)
        return self._runner(**inputs, use_cache=False)

    def backward(self, loss: Any, last: bool) -> None:
        self.last_marks.append(last)
        loss.backward()

    def gradient(self) -> Any:
        """The whole gradient so far as one vector; an absent one counts as an error."""
        import torch

        return torch.cat([parameter.grad.flatten() for parameter in self.model.parameters()])


@dataclass(frozen=True)
class FakeGroupResult:
    group: RolloutGroup


@dataclass
class FakeEngineGroup:
    """The engines of a run: two prompt tokens and three sampled ones per sample, rewards from a script.

    `reward(prompt, index)` scores sample `index` of a prompt; None leaves it ungraded, a text is the reason why it is.
    Of the groups in flight the `done_first`-th comes back next: by default the last one that was submitted. `log` holds
    what was called, in order.
    """

    reward: Callable[[Prompt, int], float | str | None]
    log: list[Any]
    version: int = 0
    requests: list[list[Any]] = field(default_factory=list)
    done_first: int = -1
    flight: list[Any] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)  # group ids in the order in which they were done
    stale: bool = False  # an engine was replaced, and has no weights yet
    generating: bool = False  # another one runs groups meanwhile

    @property
    def in_flight(self) -> int:
        return len(self.flight)

    def submit(self, requests: Sequence[Any], *, paused: bool = False) -> None:
        assert not (paused and self.flight), "a paused batch joins nothing"
        self.requests.append(list(requests))
        self.log.append("generate paused" if paused else "generate")
        self.flight += requests

    def next_group(self, within: float | None = None) -> FakeGroupResult:
        request = self.flight.pop(self.done_first)
        self.finished.append(request.group_id)
        rollouts = tuple(self._rollout(request, index) for index in range(request.n))
        return FakeGroupResult(RolloutGroup(request.group_id, rollouts))

    def _rollout(self, request: Any, index: int) -> Rollout:
        actions = np.array([False, False, True, True, True])
        segment = Segment(
            token_ids=np.array([3, 4, 5, 6, 7], dtype=np.int64),
            action_mask=actions,
            loss_mask=actions,
            logprobs=np.where(actions, -1.0, 0.0).astype(np.float32),
            policy_versions=np.where(actions, self.version, -1).astype(np.int32),
        )
        reward = self.reward(request.prompt, index)
        reason = reward if isinstance(reward, str) else "no verdict" if reward is None else None
        outcome = RewardOutcome.ungraded(reason) if reason is not None else RewardOutcome(reward, reward)
        name = f"{request.group_id}/{index}"
        return Rollout(request.group_id, name, request.prompt, (segment,), outcome, truncated=index == 0)

    def lap(self) -> dict[str, float]:
        return {"timing/reward": 0.25}

    def end(self) -> None:
        self.log.append("engines end")

    def sleep(self) -> None:
        self.log.append("sleep")

    def wake(self, tags: Sequence[str] | None = None) -> None:
        self.log.append(("wake", tags))


@dataclass
class FakeModelGroup:
    """The ranks of a policy or reference model. Every token has logprob -2; a training step counts its loss tokens."""

    log: list[Any]
    name: str = "policy"
    world_size: int = 2
    steps: list[list[list[MicroBatch]]] = field(default_factory=list)  # of each train_step, each rank's micro-batches

    def sleep(self) -> None:
        self.log.append(f"{self.name} sleeps")

    def wake(self) -> None:
        self.log.append(f"{self.name} wakes")

    def check(self, seconds: float) -> None:
        """All ranks are well."""

    def logprobs(self, batches: Sequence[Sequence[MicroBatch]]) -> list[list[np.ndarray]]:
        self.log.append(f"{self.name} logprobs")
        return self._logprobs(batches)

    def train_step(self, batches: Sequence[Sequence[MicroBatch]], kl_coef: float) -> list[PolicyStep]:
        """The KL of rank r is r + 1 on each of its loss tokens."""
        self.log.append("train")
        self.steps.append([list(own) for own in batches])
        tokens = [sum(int(batch.loss_mask.sum()) for batch in own) for own in batches]
        return [
            PolicyStep({"train/kl": MetricSum((rank + 1) * count, count)}, logprobs)
            for rank, (count, logprobs) in enumerate(zip(tokens, self._logprobs(batches), strict=True))
        ]

    @staticmethod
    def _logprobs(batches: Sequence[Sequence[MicroBatch]]) -> list[list[np.ndarray]]:
        return [[np.where(b.action_mask, -2.0, 0.0).astype(np.float32) for b in own] for own in batches]

    def save_hf(self, folder: Any) -> None:
        self.log.append(("save", folder))

    def save_state(self, folder: Any) -> None:
        """As much state as a fake has: the number of its training steps."""
        folder.mkdir(parents=True)
        (folder / "steps").write_text(str(len(self.steps)))

    def load_state(self, folder: Any) -> None:
        self.log.append(f"{self.name} goes on after {(folder / 'steps').read_text()} training steps")


@dataclass
class FakeCriticGroup:
    """The ranks of a critic: every sampled token has value 0.25; a training step counts its loss tokens."""

    log: list[Any]
    world_size: int = 2
    steps: list[list[list[MicroBatch]]] = field(default_factory=list)

    def sleep(self) -> None:
        self.log.append("critic sleeps")

    def wake(self) -> None:
        self.log.append("critic wakes")

    def values(self, batches: Sequence[Sequence[MicroBatch]]) -> list[list[np.ndarray]]:
        self.log.append("critic values")
        return [[np.where(b.action_mask, 0.25, 0.0).astype(np.float32) for b in own] for own in batches]

    def train_step(self, batches: Sequence[Sequence[MicroBatch]]) -> list[dict[str, MetricSum]]:
        """The loss of rank r is r + 1 on each of its loss tokens."""
        self.log.append("train critic")
        self.steps.append([list(own) for own in batches])
        tokens = [sum(int(batch.loss_mask.sum()) for batch in own) for own in batches]
        return [{"train/critic_loss": MetricSum((rank + 1) * count, count)} for rank, count in enumerate(tokens)]

    def save_hf(self, folder: Any) -> None:
        self.log.append(("save critic", folder))


@dataclass
class FakeRewardGroup:
    """The ranks of the reward models: the score of a sequence is its number of tokens, plus 10 in filler sequences."""

    log: list[Any]
    world_size: int = 2
    score_of: Callable[[int], float] = float

    def score(self, batches: Sequence[Sequence[MicroBatch]]) -> list[list[np.ndarray]]:
        self.log.append("reward scores")
        return [
            [
                np.array([self.score_of(n) + 10 * (r < 0) for n, r in zip(np.diff(b.cu_seqlens), b.rows, strict=True)])
                for b in own
            ]
            for own in batches
        ]
