"""Flags of the reward-model server, from the command line to a checked config."""

from collections.abc import Sequence
from typing import Literal

from openrlhf.config.attention import FLASH_PACKAGE, choose_attention
from openrlhf.config.base import Section
from openrlhf.config.command_line import read_command
from openrlhf.config.errors import ConfigError
from openrlhf.config.idle import ONE_TOKENIZER
from openrlhf.config.machine import Machine, detect_machine
from openrlhf.config.service import ServiceConfig, counts_below_1, port_problems
from openrlhf.config.train import ParamDtype

PROGRAM = "serve_rm"


class ServedModels(Section):
    """The reward models."""

    model_name_or_path: str | None = None
    """Hugging Face name or local folder of a trained reward model; commas separate several, whose scores are added.
    Required."""
    model_weights: tuple[float, ...] | None = None
    """Weight of each reward model in the sum. None: 1 each."""
    normalize_enable: bool = False
    """Put each model's scores on the scale that its config records (mean and std) before they are added."""

    @property
    def models(self) -> tuple[str, ...]:
        """The comma list of `model_name_or_path`, split. Empty when it is None."""
        return tuple(part.strip() for part in (self.model_name_or_path or "").split(",") if part.strip())

    @property
    def weights(self) -> tuple[float, ...]:
        """One per model."""
        return self.model_weights if self.model_weights is not None else (1.0,) * len(self.models)


class ServedText(Section):
    """How texts become tokens."""

    max_len: int = 2048
    """Most tokens of a text; a longer one loses its beginning, never its end, where the score is read."""
    disable_fast_tokenizer: bool = False
    """No effect: transformers 5 has one tokenizer for each model, the fast one where there is one."""


class ServedDs(Section):
    """How models are loaded."""

    param_dtype: ParamDtype | None = None
    """Number format of weights and activations. None: bf16, and fp32 on a CPU without bf16 instructions."""
    attn_implementation: str | None = None
    """Attention kernel in transformers' naming. None: flash_attention_2 on GPU where installed, else sdpa."""
    experts_implementation: Literal["eager", "batched_mm", "grouped_mm", "deepgemm"] | None = None
    """How experts of mixture-of-experts models are computed. None: transformers chooses."""
    value_head_prefix: str = "score"
    """Name of the scalar head, where the model's config does not say it."""
    packing_samples: bool = True
    """Lay texts end to end instead of padding them, where the model keeps them apart, which is tried when it is loaded.
    Turn off with --ds.no-packing_samples."""
    load_in_4bit: bool = False
    """Load the base model in 4 bit. Not built yet: refused."""


class ServeRmConfig(ServiceConfig):
    """Serve trained reward models over HTTP: POST /get_reward, GET /health."""

    reward: ServedModels = ServedModels()
    data: ServedText = ServedText()
    ds: ServedDs = ServedDs()
    port: int = 5000
    """Port to listen on; 0: a free one, which is printed."""
    batch_size: int | None = None
    """Most texts in one forward pass. None: as many as fit in 8192 tokens."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the models run. auto: on the GPU if there is one."""
    use_ms: bool = False
    """Download from ModelScope. Not built yet: refused."""


def parse_serve_rm(argv: Sequence[str], machine: Machine | None = None) -> tuple[ServeRmConfig, tuple[str, ...]]:
    """(config, warnings) of the words after the program's name; ConfigError holds all problems; `--help` exits.

    `machine`: what to run on, detected when None.
    """
    config, line = read_command(argv, ServeRmConfig, PROGRAM)
    problems = _problems(config)
    machine = machine or detect_machine(count_gpus=config.device != "cpu")
    if config.device == "cuda" and not machine.num_gpus:
        problems.append("--device cuda: torch sees no GPU on this machine; use --device cpu")
    config = _resolved(config, machine)
    attention = choose_attention(config.ds.attn_implementation, config.device, FLASH_PACKAGE in machine.packages)
    problems += attention.problems
    if problems:
        raise ConfigError(problems)
    config = config.model_copy(update={"ds": config.ds.model_copy(update={"attn_implementation": attention.kernel})})
    idle = [f"--data.disable_fast_tokenizer has no effect: {ONE_TOKENIZER}"] * config.data.disable_fast_tokenizer
    return config, (*line.warnings, *attention.warnings, *idle)


def _problems(config: ServeRmConfig) -> list[str]:
    models, weights = config.reward.models, config.reward.weights
    checks = {
        "--reward.model_name_or_path is missing: name at least one reward model": not models,
        f"--reward.model_weights: {len(weights)} weights for {len(models)} models; give one each": len(weights)
        != len(models),
        "--ds.load_in_4bit: 4-bit loading is not available; leave it out": config.ds.load_in_4bit,
        "--use_ms: ModelScope is not available; give a local folder": config.use_ms,
    }
    counts = {"batch_size": config.batch_size, "data.max_len": config.data.max_len}
    return [*(line for line, wrong in checks.items() if wrong), *port_problems(config.port), *counts_below_1(counts)]


def _resolved(config: ServeRmConfig, machine: Machine) -> ServeRmConfig:
    device = config.device if config.device != "auto" else "cuda" if machine.num_gpus else "cpu"
    slow = device == "cpu" and not machine.cpu_has_bf16
    dtype = config.ds.param_dtype or ("fp32" if slow else "bf16")
    return config.model_copy(update={"device": device, "ds": config.ds.model_copy(update={"param_dtype": dtype})})
