"""The Protocols at the seams between rooms. Implementations live in the rooms; nothing here runs."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from openrlhf.types import (
    Completion,
    EncodedImage,
    Prompt,
    RewardOutcome,
    SamplingParams,
    Trajectory,
    TransferManifest,
)


class ImageTokens(Protocol):
    """How images stand among the text and tokens of a vision-language model.

    In text and in folded ids an image is one placeholder; in expanded ids, the form of every record, it is all the
    tokens that the model sees.
    """

    token: str  # the placeholder's text
    max_images: int  # of a whole episode
    banned_ids: tuple[int, ...]  # never to be sampled: the model takes them for images

    def mark(self, text: str) -> str:
        """The text with the model's own placeholder for each `<image>`."""
        ...

    def expand(self, token_ids: Sequence[int], images: Sequence[EncodedImage]) -> list[int]:
        """Put every image's tokens in place of its placeholder. ValueError unless there are as many of one as of the
        other, and (as ImageError) for an image that the model cannot take."""
        ...

    def fold(self, token_ids: Sequence[int], images: Sequence[EncodedImage]) -> list[int]:
        """Undo `expand`. ValueError where the ids do not hold the tokens of exactly these images, in this order."""
        ...


class LLMEngine(Protocol):
    """Token ids in, token ids and the logprobs they were sampled with out. Ids of images are expanded."""

    @property
    def image_tokens(self) -> ImageTokens | None:
        """None: the model takes text only."""
        ...

    async def generate(
        self, prompt_token_ids: Sequence[int], sampling_params: SamplingParams, images: Sequence[Any] | None = None
    ) -> Completion: ...


class Executor(Protocol):
    """Runs one episode of one sample. A fresh copy of `sampling_params` is handed to every call."""

    async def execute(
        self,
        prompt: str,
        label: str,
        sampling_params: SamplingParams,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: LLMEngine,
        images: Sequence[Any] | None = None,
    ) -> Trajectory: ...

    async def close(self) -> None:
        """The engine shuts down; give back what the executor opened."""
        ...


class RewardSource(Protocol):
    """Scores one finished sample. A missing verdict is an UNGRADED outcome; RewardError means the run must stop."""

    async def score(self, query: str, prompt: Prompt, response: str) -> RewardOutcome: ...

    async def close(self) -> None: ...


class WeightSender(Protocol):
    """The sending side of a weight transfer, on rank 0 of the policy.

    `streaming` transports (NCCL) need both sides at once: the receiver is started with `describe()`'s manifest and
    then `send` runs. The others (shm, ipc) finish `send` first and hand its manifest to the receiver.
    """

    streaming: bool

    def describe(self, weights: Iterable[tuple[str, Any]], version: int) -> TransferManifest: ...

    def send(self, weights: Iterable[tuple[str, Any]], version: int) -> TransferManifest: ...

    def release(self) -> None:
        """The receivers are done with the last transfer."""
        ...

    def close(self) -> None: ...
