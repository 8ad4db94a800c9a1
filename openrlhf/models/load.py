"""Loading a model for training, and saying in one line why one cannot be loaded."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from openrlhf.faults import first_line
from openrlhf.models.errors import ModelError
from openrlhf.models.vision.architectures import architecture_of

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

_LOAD_ERRORS = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    RuntimeError,
    ImportError,  # a kernel's package
    SafetensorError,
    json.JSONDecodeError,
)


def load_config(path: str) -> PretrainedConfig:
    """Read the model's config alone: cheap enough to check a path before any process starts.

    Raises:
        ModelError: the folder does not exist, holds no config.json, or names an unknown architecture.
    """
    folder = Path(path)
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise ModelError(f"model {path!r}: the folder has no config.json, so it is not a Hugging Face model")
    if not folder.exists() and (folder.is_absolute() or path.startswith((".", "~"))):
        raise ModelError(f"model {path!r}: no such folder")
    try:
        return AutoConfig.from_pretrained(path)
    except _LOAD_ERRORS as error:
        hint = "" if folder.exists() else "no such folder, and not found on the hub: "
        raise ModelError(f"model {path!r}: {hint}{first_line(error)}") from error


def load_causal_lm(
    path: str,
    dtype: torch.dtype,
    attn_implementation: str,
    *,
    experts_implementation: str | None = None,
    gradient_checkpointing: bool = False,
    gradient_checkpointing_reentrant: bool = False,
) -> PreTrainedModel:
    """Load a causal LM, or a vision-language model with an entry, on the CPU in `dtype`, ready for training.

    The KV cache is off: with it, or with an all-ones attention mask, transformers takes a packed row for one
    sequence and lets its parts attend to each other without a word.

    Raises:
        ModelError: as in `load_config`; unreadable or incomplete weights; no `logits_to_keep`.
    """
    config = load_config(path)
    model, report = load_pretrained(
        AutoModelForCausalLM if architecture_of(config) is None else AutoModelForImageTextToText,
        path,
        config,
        dtype=dtype,
        attn_implementation=attn_implementation,
        experts_implementation=experts_implementation,
    )
    check_complete(path, report)
    prepare(model, gradient_checkpointing, gradient_checkpointing_reentrant)
    return model


def load_pretrained(
    auto_class: Any,
    path: str,
    config: PretrainedConfig,
    *,
    experts_implementation: str | None = None,
    **options: Any,
) -> tuple[PreTrainedModel, dict[str, Any]]:
    """Load with one of transformers' auto classes; also returns its report of missing and unexpected weights.

    Raises:
        ModelError: the architecture is not one of the class's, or its files cannot be read.
    """
    if experts_implementation is not None:
        options["experts_implementation"] = experts_implementation
    try:
        loaded: Any = auto_class.from_pretrained(path, config=config, output_loading_info=True, **options)
    except _LOAD_ERRORS as error:
        raise ModelError(f"model {path!r} cannot be loaded: {first_line(error)}") from error
    return loaded


def prepare(model: PreTrainedModel, gradient_checkpointing: bool, reentrant: bool) -> None:
    """Make a loaded model ready for training: no KV cache, no dropout, activations kept or not."""
    model.config.use_cache = False
    _disable_dropout(model)
    if gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        if reentrant:
            model.enable_input_require_grads()  # a reentrant block without a differentiable input has no gradient


def _disable_dropout(model: PreTrainedModel) -> None:
    """RL compares the same tokens' probabilities over several passes: they must not be random. The config stays."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for name in ("attention_dropout", "dropout"):  # attention layers keep it as a number
            if isinstance(vars(module).get(name), float):
                vars(module)[name] = 0.0


def check_vocabulary(path: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a tokenizer that can produce ids the model has no embedding for (fewer ids than rows is usual).

    Raises:
        ModelError
    """
    rows = model.config.get_text_config().vocab_size
    if len(tokenizer) > rows:
        raise ModelError(
            f"model {path!r}: its tokenizer has {len(tokenizer)} tokens but the model embeds {rows}; "
            "resize the embedding and save the model again, or use the tokenizer it was trained with"
        )


def check_complete(path: str, report: dict[str, Any]) -> None:
    """Refuse weight files that lack a weight of the model.

    Raises:
        ModelError
    """
    problems = sorted(report["missing_keys"]) + sorted(str(key) for key in report["mismatched_keys"])
    if problems:
        shown = ", ".join(problems[:3]) + (f" and {len(problems) - 3} more" if len(problems) > 3 else "")
        raise ModelError(f"model {path!r}: its weight files lack, or hold in another shape, {shown}")
