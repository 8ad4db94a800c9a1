"""Writing a model as plain Hugging Face files."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin

from openrlhf.faults import first_line


def save_hf(
    model: PreTrainedModel,
    weights: Mapping[str, torch.Tensor],
    tokenizer: PreTrainedTokenizerBase | ProcessorMixin,
    path: Path | str,
    renamed: Mapping[str, str] | None = None,
) -> None:
    """Write safetensors, config, generation config, tokenizer and chat template to `path`.

    Args:
        model: gives the architecture and its configs; its own tensors may be sharded away and are not read.
        weights: every weight in full, under its name in the model, on the CPU, all in one dtype, which the config
            will record. A tied output head is absent: it is the embedding.
        tokenizer: of a vision-language model its processor, which holds the tokenizer.
        renamed: the names in the file, of weights that have another one there.

    Raises:
        ValueError: weights of several dtypes. OSError: the disk refused.
    """
    names = renamed or {}
    dtypes = {tensor.dtype for tensor in weights.values() if tensor.is_floating_point()}
    if len(dtypes) != 1:
        raise ValueError(f"save_hf: weights of one dtype expected, got {sorted(map(str, dtypes))}")
    use_cache, model.config.use_cache = model.config.use_cache, True  # off for training only: see models/load.py
    with _refusals_of_the_disk(path):
        try:
            model.save_pretrained(path, state_dict={names.get(name, name): weight for name, weight in weights.items()})
            _record_dtype(model, dtypes.pop(), path)
        finally:
            model.config.use_cache = use_cache
        tokenizer.save_pretrained(path)
    for file in Path(path).glob("*.safetensors"):  # safetensors lets nobody but the owner read them
        shutil.copymode(Path(path) / "config.json", file)


def _record_dtype(model: PreTrainedModel, dtype: torch.dtype, path: Path | str) -> None:
    model.config.dtype = dtype
    model.config.save_pretrained(path)


@contextmanager
def _refusals_of_the_disk(path: Path | str) -> Iterator[None]:
    """As OSError, which writers in Rust do not raise: safetensors has an error of its own, tokenizers a bare one."""
    try:
        yield
    except Exception as error:
        if isinstance(error, SafetensorError) or type(error) is Exception:
            raise OSError(f"{path}: {first_line(error)}") from error
        raise
