"""Tiny random vision-language models. torch and transformers are imported inside the functions: they cost seconds."""

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.models import ALPHABET, EOS_ID, SPECIAL_TOKENS, make_tiny_tokenizer

IMAGE_TOKEN = "<image>"
_IDEFICS_TOKENS = (IMAGE_TOKEN, "<fake_token_around_image>", "<global-img>", "<end_of_utterance>")
SIDE, PATCH, SCALE = 32, 8, 2  # an image of one tile is (32 / 8 / 2)^2 = 4 tokens

# `role: parts` a line, and the assistant's turn opened by the generation prompt.
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{image}{% else %}{{ part['text'] }}{% endif %}{% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def tiny_tokenizer(extra: tuple[str, ...]) -> Any:
    """The tiny tokenizer with special tokens of a vision-language model behind its own."""
    tokenizer = make_tiny_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": list(extra)})
    return tokenizer


def tiny_idefics3_config(tied: bool = False) -> Any:
    from transformers import Idefics3Config

    first = len(SPECIAL_TOKENS) + len(ALPHABET)
    return Idefics3Config(
        image_token_id=first,
        scale_factor=SCALE,
        tie_word_embeddings=tied,
        pad_token_id=EOS_ID,
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": SIDE,
            "patch_size": PATCH,
        },
        text_config={
            "model_type": "llama",
            "vocab_size": 128,
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "max_position_embeddings": 1024,
            "tie_word_embeddings": tied,
            "pad_token_id": EOS_ID,
            "eos_token_id": EOS_ID,
            "bos_token_id": 1,
        },
    )


def tiny_idefics3_processor(tiles: bool = False) -> Any:
    """`tiles`: images are cut into tiles and an overview, so that their shape decides how many tokens they have."""
    from transformers import Idefics3ImageProcessorPil, Idefics3Processor

    images = Idefics3ImageProcessorPil(
        size={"longest_edge": 2 * SIDE if tiles else SIDE},
        max_image_size={"longest_edge": SIDE},
        do_image_splitting=tiles,
    )
    return Idefics3Processor(
        images,
        tiny_tokenizer(_IDEFICS_TOKENS),
        image_seq_len=(SIDE // PATCH // SCALE) ** 2,
        chat_template=CHAT_TEMPLATE.replace("{image}", IMAGE_TOKEN),
    )


def make_tiny_idefics3(path: Path | str, *, tied: bool = False, tiles: bool = False, seed: int = 0) -> Path:
    """Write the model folder in fp32 and return its path. Weights are drawn wide, as in tests/models.py."""
    import torch
    from transformers import GenerationConfig, Idefics3ForConditionalGeneration

    folder = Path(path)
    config = tiny_idefics3_config(tied)
    config.text_config.initializer_range = config.vision_config.initializer_range = config.initializer_range = 0.1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Idefics3ForConditionalGeneration(config)
    model.generation_config = GenerationConfig(eos_token_id=EOS_ID, pad_token_id=EOS_ID)
    model.save_pretrained(folder)
    tiny_idefics3_processor(tiles).save_pretrained(folder)
    return folder


_QWEN_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
_QWEN_TEXT = {
    "vocab_size": 128,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "initializer_range": 0.1,
    "bos_token_id": None,
    "eos_token_id": EOS_ID,
    "pad_token_id": EOS_ID,
}


def make_tiny_qwen2_5_vl(path: Path | str, *, tied: bool = True) -> Path:
    """An image has as many tokens as squares of 16 x 16 pixels, at most 16. Needs torchvision."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLProcessor

    config = Qwen2_5_VLConfig(
        **_qwen_ids(),
        tie_word_embeddings=tied,
        text_config=_QWEN_TEXT | {"rope_parameters": {"rope_type": "default", "mrope_section": [4, 6, 6]}},
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "patch_size": 8,
            "window_size": 32,
            "out_hidden_size": 128,
            "fullatt_block_indexes": [1],
            "initializer_range": 0.1,
        },
    )
    config.text_config.tie_word_embeddings = tied
    return _write_qwen(path, config, Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLProcessor)


def make_tiny_qwen3_vl(path: Path | str, *, tied: bool = True) -> Path:
    """As `make_tiny_qwen2_5_vl`."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLProcessor

    rope = {"rope_type": "default", "mrope_section": [4, 6, 6], "mrope_interleaved": True}
    config = Qwen3VLConfig(
        **_qwen_ids(),
        tie_word_embeddings=tied,
        text_config=_QWEN_TEXT | {"head_dim": 32, "rope_parameters": rope},
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "patch_size": 8,
            "out_hidden_size": 128,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0],
            "initializer_range": 0.1,
        },
    )
    config.text_config.tie_word_embeddings = tied
    return _write_qwen(path, config, Qwen3VLForConditionalGeneration, Qwen3VLProcessor)


def _qwen_ids() -> dict[str, int]:
    first = len(SPECIAL_TOKENS) + len(ALPHABET)
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    return {name: first + number for number, name in enumerate(names)}


def _write_qwen(path: Path | str, config: Any, model_class: Any, processor_class: Any) -> Path:
    import torch
    from transformers import GenerationConfig, Qwen2VLImageProcessor, Qwen2VLVideoProcessor

    sizes = {"patch_size": 8, "merge_size": 2, "temporal_patch_size": 2}
    images = Qwen2VLImageProcessor(size={"shortest_edge": 16 * 16, "longest_edge": 64 * 64}, **sizes)
    template = CHAT_TEMPLATE.replace("{image}", "<|vision_start|><|image_pad|><|vision_end|>")
    processor = processor_class(
        image_processor=images,
        tokenizer=tiny_tokenizer(_QWEN_TOKENS),
        video_processor=Qwen2VLVideoProcessor(**sizes),
        chat_template=template,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = model_class(config)
    model.generation_config = GenerationConfig(eos_token_id=EOS_ID, pad_token_id=EOS_ID)
    model.save_pretrained(path)
    processor.save_pretrained(path)
    return Path(path)


TINY: dict[str, Callable[[Path], Path]] = {
    "idefics3": lambda folder: make_tiny_idefics3(folder, tied=True, tiles=True),
    "qwen2_5_vl": make_tiny_qwen2_5_vl,
    "qwen3_vl": make_tiny_qwen3_vl,
}


def chosen() -> list[str]:
    """The architectures of VISION_MODELS (a list with commas; `make test-all` names all), else those usable here."""
    return [name for name in os.environ.get("VISION_MODELS", "").split(",") if name] or usable()


def usable() -> list[str]:
    """The architectures whose processors load here: some need torchvision, which not every machine has."""
    from openrlhf.models.vision.architectures import ARCHITECTURES

    has_torchvision = importlib.util.find_spec("torchvision") is not None
    return [name for name in TINY if has_torchvision or ARCHITECTURES[name].processor == "pillow"]
