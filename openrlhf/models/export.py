"""Writing a model as plain Hugging Face files."""

import copy
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin
from transformers.utils import GENERATION_CONFIG_NAME

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
        weights: every weight and persistent buffer in full, under its name in the model, on the CPU. The config
            records the weights' dtype, which is one, but for what the architecture keeps in fp32. A tied output head is
            absent: it is the embedding.
        tokenizer: of a vision-language model its processor, which holds the tokenizer.
        renamed: the names in the file, of weights that have another one there.

    Raises:
        ValueError: weights of several dtypes. OSError: the disk refused.
    """
    names = renamed or {}
    dtype = _common_dtype(model, weights)
    use_cache, model.config.use_cache = model.config.use_cache, True  # off for training only: see models/load.py
    with _refusals_of_the_disk(path):
        try:
            with _unchecked_generation_config(model, path):
                model.save_pretrained(path, state_dict={names.get(name, name): w for name, w in weights.items()})
            _record_dtype(model, dtype, path)
        finally:
            model.config.use_cache = use_cache
        tokenizer.save_pretrained(path)
    for file in Path(path).glob("*.safetensors"):  # safetensors lets nobody but the owner read them
        shutil.copymode(Path(path) / "config.json", file)


def _common_dtype(model: PreTrainedModel, weights: Mapping[str, torch.Tensor]) -> torch.dtype:
    """The number format of the weights, without buffers and without what the architecture keeps in fp32 (routers)."""
    kept = (model._keep_in_fp32_modules_strict or set()) | (model._keep_in_fp32_modules or set())
    in_fp32 = re.compile("|".join(pattern.replace("*", ".*") for pattern in sorted(kept)) or "(?!)")  # (?!): no name
    buffers = {name for name, _ in model.named_buffers()}
    dtypes = {
        tensor.dtype
        for name, tensor in weights.items()
        if tensor.is_floating_point()
        and name not in buffers
        and not (tensor.dtype is torch.float32 and in_fp32.search(name))
    }
    if len(dtypes) != 1:
        raise ValueError(f"save_hf: weights of one dtype expected, got {sorted(map(str, dtypes))}")
    return dtypes.pop()


@contextmanager
def _unchecked_generation_config(model: PreTrainedModel, path: Path | str) -> Iterator[None]:
    """Within, the model writes a blank generation config; its own, as it can be written, replaces that file after.

    transformers reads a file with `temperature` and no `do_sample` (Llama 2 and Vicuna have one), but raises when it is
    to write it, before it has written any weight.
    """
    if not model.can_generate():
        yield
        return
    own = model.generation_config
    model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = own
    _consistent(own).to_json_file(Path(path) / GENERATION_CONFIG_NAME, keys_to_pop=["compile_config"])


def _consistent(config: GenerationConfig) -> GenerationConfig:
    """With sampling switched on where only its fields are set; as it is where that does not make it valid."""
    if config.do_sample is not None:
        return config
    sampling = copy.deepcopy(config)
    sampling.do_sample = True
    for candidate in (config, sampling):
        try:
            candidate.validate(strict=True)
        except ValueError:
            continue
        return candidate
    return config


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
