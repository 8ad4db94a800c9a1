"""What one engine needs to know. Importable without vLLM, so the driver can build it."""

from dataclasses import dataclass
from typing import Literal

from openrlhf.config.rollout import VllmConfig
from openrlhf.interfaces import ImageTokens

TorchDtypeName = Literal["bfloat16", "float16", "float32"]
TORCH_DTYPE_NAMES: dict[str, TorchDtypeName] = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


@dataclass(frozen=True)
class VllmEngineArgs:
    """Settings of one engine.

    `stop_token_ids` end every response, beside those that vLLM reads from the model's generation config and
    tokenizer. `engine_index` is this engine's place among all engines: it fixes its ranks in a weight broadcast.
    """

    model_path: str
    vllm: VllmConfig  # resolved: dtype is set
    device: Literal["cpu", "cuda"]
    max_model_len: int  # prompt and response together
    seed: int = 0
    stop_token_ids: tuple[int, ...] = ()
    engine_index: int = 0
    sync_timeout: float = 600.0  # seconds that one weight sync may take
    keep_in_flight: bool = False  # weights change under running requests, which then go on with the new ones
    image_tokens: ImageTokens | None = None  # of a vision-language model

    @property
    def name(self) -> str:
        return f"vLLM engine {self.engine_index}"

    @property
    def dtype(self) -> TorchDtypeName:
        """The engine's number format in torch's spelling; ValueError where resolve() has not set it."""
        if self.vllm.dtype is None:
            raise ValueError("vllm.dtype is not set: build VllmEngineArgs from a resolved config")
        return TORCH_DTYPE_NAMES[self.vllm.dtype]
