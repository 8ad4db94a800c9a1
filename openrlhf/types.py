"""The records that flow through training, and nothing else.

    Prompt -> Completion -> Segment -> Rollout -> RolloutGroup -> Experience -> MicroBatch

Lengths: L tokens of one segment, A sampled tokens, G rollouts of one prompt, B x T a padded batch,
N packed tokens, S sequences in a pack.

One alignment everywhere: index t describes token t. `logprobs[t]` is log p(token t | tokens before t), and
`action_mask[t]` is true iff the policy sampled token t. The first token of every sequence has mask 0 and
logprob 0.

Records travel between processes, so they hold numpy arrays (zero copy in Ray's object store) and this module
imports nothing heavy. A record checks itself where it is made.
"""

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Literal

import numpy as np

FinishReason = Literal["stop", "length", "aborted"]
FLOAT32_MAX = float(np.finfo(np.float32).max)  # larger rewards and scores are infinite in an `Experience`
RUNNER_DOWN = "runner_down"  # a fact of a trajectory: 1 where a tool that the policy asked for was out of order, else 0


def _require_same_length(owner: str, **arrays: np.ndarray | None) -> int:
    """Return the common first dimension of the arrays that are present; raise ValueError naming each if they differ."""
    lengths = {name: len(array) for name, array in arrays.items() if array is not None}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{owner}: arrays of different length: {lengths}")
    return next(iter(lengths.values()))


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """An upright RGB image as the bytes of its file. `openrlhf.images.read_image` makes it. Equal iff the bytes are."""

    data: bytes
    source: str = field(default="", compare=False)  # where it came from, for messages

    @property
    def digest(self) -> str:
        """Hex digest of the bytes."""
        return hashlib.sha256(self.data).hexdigest()

    def decode(self) -> Any:
        """The pixels, as a PIL image of mode RGB."""
        from PIL import Image

        with Image.open(io.BytesIO(self.data)) as image:
            return image.convert("RGB")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One row of the prompt set, its text as the policy will see it (template already applied)."""

    prompt_id: int  # position in the whole prompt set, stable across epochs and resumes
    text: str
    label: str = ""
    images: tuple[EncodedImage, ...] = ()  # in the order of their placeholders in the text
    datasource: str = "default"
    task: str | None = None
    env_func: str | None = None
    where: str = field(default="", compare=False)  # file and row of a prompt with images, for messages

    def __setstate__(self, state: Sequence[Any]) -> None:
        """The values of the fields in their order. A checkpoint may hold prompts from before the last fields were
        added; those get their defaults."""
        known = fields(self)
        for one, value in zip(known, [*state, *(new.default for new in known[len(state) :])], strict=True):
            object.__setattr__(self, one.name, value)


@dataclass(slots=True)
class SamplingParams:
    """How to sample one completion. Attribute names follow vLLM's, since agents read and replace them.

    `stop` and `stop_token_ids` are also given as None, or as one text or id alone; what they hold is always a tuple.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int | None = None  # None: as many as max_length leaves
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    include_stop_str_in_output: bool = True
    seed: int | None = None
    logit_bias: dict[int, float] | None = None
    structured_outputs: dict[str, Any] | None = None  # one of json, regex, choice, grammar, structural_tag; None: free

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, _several(value) if name in ("stop", "stop_token_ids") else value)


def _several(value: Any) -> tuple[Any, ...]:
    """A text alone is one stop, not one for each of its characters; an empty one is none."""
    if value is None or (isinstance(value, str) and not value):
        return ()
    return (value,) if isinstance(value, str | int) else tuple(value)


@dataclass(frozen=True, slots=True)
class Completion:
    """What the engine sampled for one request: ids and the log-probabilities they were sampled with."""

    token_ids: np.ndarray  # (A,) int64
    logprobs: np.ndarray  # (A,) float32, of the processed distribution (after temperature)
    finish_reason: FinishReason
    policy_versions: np.ndarray  # (A,) int32, of the weights that sampled each token

    def __post_init__(self) -> None:
        _require_same_length(
            "Completion", token_ids=self.token_ids, logprobs=self.logprobs, policy_versions=self.policy_versions
        )


class Status(StrEnum):
    """Whether a sample has a verdict: DESIGN rule 1."""

    GRADED = "graded"  # a verdict was reached
    UNGRADED = "ungraded"  # no verdict: the grader was down, answered NaN, or did not match
    FAILED = "failed"  # the answer itself broke; its reward is 0


@dataclass(frozen=True, slots=True)
class RewardOutcome:
    """The verdict on one sample. `reward` and `score` are numbers that float32 holds unless the status is UNGRADED."""

    reward: float  # enters the advantage
    score: float  # used by filtering and evaluation, usually in [0, 1]
    status: Status = Status.GRADED
    reason: str = ""
    extra_logs: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        has_verdict = bool(abs(self.reward) <= FLOAT32_MAX and abs(self.score) <= FLOAT32_MAX)  # False for NaN
        if has_verdict == (self.status is Status.UNGRADED):
            raise ValueError(f"RewardOutcome: status {self.status} with reward {self.reward}, score {self.score}")

    @classmethod
    def ungraded(cls, reason: str) -> "RewardOutcome":
        return cls(float("nan"), float("nan"), Status.UNGRADED, reason)


@dataclass(frozen=True, slots=True)
class Turn:
    """One action of the policy inside a segment: tokens [start, end) and the reward given for it (None: none)."""

    start: int
    end: int
    reward: float | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """One token trajectory: prompt, sampled tokens and environment tokens in the order the policy saw them."""

    token_ids: np.ndarray  # (L,) int64
    action_mask: np.ndarray  # (L,) bool, sampled by the policy
    loss_mask: np.ndarray  # (L,) bool, sampled and trained on
    logprobs: np.ndarray  # (L,) float32, 0 where action_mask is false
    policy_versions: np.ndarray  # (L,) int32, -1 where action_mask is false
    turns: tuple[Turn, ...] = ()
    images: tuple[EncodedImage, ...] = ()  # shown by its tokens, in their order

    def __post_init__(self) -> None:
        length = _require_same_length(
            "Segment",
            token_ids=self.token_ids,
            action_mask=self.action_mask,
            loss_mask=self.loss_mask,
            logprobs=self.logprobs,
            policy_versions=self.policy_versions,
        )
        if length == 0:
            raise ValueError("Segment: no tokens")
        if self.action_mask[0]:
            raise ValueError("Segment: the first token cannot be an action, nothing predicts it")
        if np.any(self.loss_mask & ~self.action_mask):
            raise ValueError("Segment: loss_mask marks a token that the policy did not sample")
        if not np.all(np.isfinite(self.logprobs[self.action_mask])):
            raise ValueError("Segment: a sampled token has no finite logprob")

    @property
    def num_actions(self) -> int:
        return int(self.action_mask.sum())


@dataclass(frozen=True, slots=True)
class Trajectory:
    """What an executor hands back: the segments of one sample, and the outcome where the environment gave one."""

    segments: tuple[Segment, ...]
    truncated: bool
    outcome: RewardOutcome | None = None  # None: the reward stage decides
    facts: Mapping[str, float] = field(default_factory=dict)  # counts by the environment, for the reward of a task


class RolloutStatus(StrEnum):
    COMPLETE = "complete"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Rollout:
    """One sample of a prompt with its verdict."""

    group_id: str
    sample_id: str
    prompt: Prompt
    segments: tuple[Segment, ...]
    outcome: RewardOutcome
    truncated: bool
    status: RolloutStatus = RolloutStatus.COMPLETE
    response_text: str = ""  # a view for people and reward functions; never tokenised again

    @property
    def num_actions(self) -> int:
        return sum(segment.num_actions for segment in self.segments)


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """All samples of one prompt. Groups count samples, not segments."""

    group_id: str
    rollouts: tuple[Rollout, ...]

    def __post_init__(self) -> None:
        strangers = {r.group_id for r in self.rollouts} - {self.group_id}
        if strangers:
            raise ValueError(f"RolloutGroup {self.group_id}: holds rollouts of {sorted(strangers)}")


@dataclass(slots=True)
class Experience:
    """A padded batch of segments, right padded with token 0. Row b is real up to attention_mask[b].sum()."""

    sequences: np.ndarray  # (B, T) int64
    attention_mask: np.ndarray  # (B, T) bool, from lengths, never from the pad id
    action_mask: np.ndarray  # (B, T) bool
    loss_mask: np.ndarray  # (B, T) bool
    policy_versions: np.ndarray  # (B, T) int32
    rollout_logprobs: np.ndarray  # (B, T) float32
    rewards: np.ndarray  # (B,) float32
    scores: np.ndarray  # (B,) float32
    group_ids: np.ndarray  # (B,) int64, equal iff the same prompt draw
    sample_ids: np.ndarray  # (B,) int64, equal iff segments of one sample
    truncated: np.ndarray  # (B,) bool
    bad_examples: np.ndarray | None = None  # (B,) bool, called so by their task's filter; None: nobody asked
    turn_rewards: np.ndarray | None = None  # (B, T) float32, each at its turn's last action; None: no turn has one
    images: tuple[tuple[EncodedImage, ...], ...] | None = None  # (B,), those of each row; None: no row has any
    old_logprobs: np.ndarray | None = None  # (B, T); None: on-policy, the step's own detached logprobs serve
    ref_logprobs: np.ndarray | None = None  # (B, T)
    values: np.ndarray | None = None  # (B, T)
    advantages: np.ndarray | None = None  # (B, T)
    returns: np.ndarray | None = None  # (B, T)

    def __post_init__(self) -> None:
        _require_same_length(
            "Experience",
            sequences=self.sequences,
            attention_mask=self.attention_mask,
            action_mask=self.action_mask,
            loss_mask=self.loss_mask,
            policy_versions=self.policy_versions,
            rollout_logprobs=self.rollout_logprobs,
            rewards=self.rewards,
            scores=self.scores,
            group_ids=self.group_ids,
            sample_ids=self.sample_ids,
            truncated=self.truncated,
            bad_examples=self.bad_examples,
            turn_rewards=self.turn_rewards,
        )
        if self.images is not None and len(self.images) != len(self.sequences):
            raise ValueError(f"Experience: images of {len(self.images)} rows, but there are {len(self.sequences)}")

    def __len__(self) -> int:
        return len(self.sequences)


@dataclass(frozen=True, slots=True)
class StepTotals:
    """Denominators of one whole optimiser step, over every rank and micro-batch (DESIGN rule 2)."""

    tokens: float  # loss tokens
    sequences: float  # sequences with at least one loss token


@dataclass(slots=True)
class MicroBatch:
    """Sequences laid end to end. `rows` says which row of the source batch each sequence is (-1: filler)."""

    token_ids: np.ndarray  # (N,) int64
    position_ids: np.ndarray  # (N,) int64, restarts at 0 with every sequence
    cu_seqlens: np.ndarray  # (S+1,) int32, sequence s is [cu_seqlens[s], cu_seqlens[s+1])
    action_mask: np.ndarray  # (N,) bool
    loss_mask: np.ndarray  # (N,) bool
    rollout_logprobs: np.ndarray  # (N,) float32
    rows: np.ndarray  # (S,) int64
    totals: StepTotals
    old_logprobs: np.ndarray | None = None  # (N,) float32
    ref_logprobs: np.ndarray | None = None  # (N,) float32
    advantages: np.ndarray | None = None  # (N,) float32
    returns: np.ndarray | None = None  # (N,) float32
    values: np.ndarray | None = None  # (N,) float32
    images: tuple[tuple[EncodedImage, ...], ...] | None = None  # (S,), those of each sequence; None: none has any

    def __post_init__(self) -> None:
        length = _require_same_length(
            "MicroBatch",
            token_ids=self.token_ids,
            position_ids=self.position_ids,
            action_mask=self.action_mask,
            loss_mask=self.loss_mask,
            rollout_logprobs=self.rollout_logprobs,
            old_logprobs=self.old_logprobs,
            ref_logprobs=self.ref_logprobs,
            advantages=self.advantages,
            returns=self.returns,
            values=self.values,
        )
        if self.cu_seqlens[0] != 0 or self.cu_seqlens[-1] != length or len(self.rows) != len(self.cu_seqlens) - 1:
            raise ValueError(f"MicroBatch: cu_seqlens {self.cu_seqlens.tolist()} do not cover {length} tokens")
        if self.images is not None and len(self.images) != len(self.rows):
            raise ValueError(f"MicroBatch: images of {len(self.images)} sequences, but there are {len(self.rows)}")


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Where one weight lies in a transfer: its HF name, shape, dtype ('bfloat16', 'float32', ...) and byte offset."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    offset: int


@dataclass(frozen=True, slots=True)
class TransferManifest:
    """What a weight transfer holds, in order; `location` is the transport's own address of the bytes."""

    backend: Literal["shm", "ipc", "nccl"]
    version: int  # the policy version these weights make
    tensors: tuple[TensorSpec, ...]
    location: Mapping[str, Any] = field(default_factory=dict)
    partial: bool = False  # without the vision encoder, which keeps the weights it has
