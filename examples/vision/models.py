"""Tiny random vision-language models with one token per word of the example. A picture of it is 4 tokens in each."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from make_data import QUESTIONS
from pictures import COLOURS, MOST_SHAPES, SIDE

PATCH, SCALE = 8, 2  # (32 / 8 / 2)^2 tokens
PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
ANSWERS = {"colour": tuple(COLOURS), "count": tuple(str(n) for n in range(1, MOST_SHAPES + 1))}
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }} : {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{picture}{% else %}{{ part['text'] }}{% endif %}{% endfor %} {% endfor %}"
    "{% if add_generation_prompt %}assistant : {% endif %}"
)
VISION = {"hidden_size": 64, "intermediate_size": 128, "patch_size": PATCH}
TEXT = {
    "vocab_size": 64,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": None,
}


def make_tokenizer(special: tuple[str, ...]) -> Any:
    """One token per word of the example, and those of the architecture."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    chat = ("user", "assistant", "system", ":", "look", "again", "at", "wrong")
    words = [word for question in QUESTIONS.values() for word in question.split()]
    answers = [answer for group in ANSWERS.values() for answer in group]
    vocabulary = list(dict.fromkeys((PAD, END, UNKNOWN, *special, *chat, *words, *answers)))
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token=UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        additional_special_tokens=list(special),
        clean_up_tokenization_spaces=False,
    )


def idefics3(tokenizer: Any) -> tuple[Any, Any]:
    from transformers import (
        Idefics3Config,
        Idefics3ForConditionalGeneration,
        Idefics3ImageProcessorPil,
        Idefics3Processor,
    )

    ends = {"pad_token_id": tokenizer.pad_token_id}
    config = Idefics3Config(
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=SCALE,
        **ends,
        vision_config=VISION | {"num_hidden_layers": 2, "num_attention_heads": 2, "image_size": SIDE},
        text_config=TEXT | ends | {"model_type": "llama", "head_dim": 32, "eos_token_id": tokenizer.eos_token_id},
    )
    pixels = Idefics3ImageProcessorPil(
        size={"longest_edge": SIDE}, max_image_size={"longest_edge": SIDE}, do_image_splitting=False
    )
    template = CHAT_TEMPLATE.replace("{picture}", "<image>")
    length = (SIDE // PATCH // SCALE) ** 2
    processor = Idefics3Processor(pixels, tokenizer, image_seq_len=length, chat_template=template)
    return Idefics3ForConditionalGeneration(config), processor


def qwen2_5_vl(tokenizer: Any) -> tuple[Any, Any]:
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLProcessor

    rope = {"rope_type": "default", "mrope_section": [4, 6, 6]}
    vision = {"depth": 2, "num_heads": 2, "window_size": SIDE, "out_hidden_size": 128, "fullatt_block_indexes": [1]}
    config = Qwen2_5_VLConfig(
        **_qwen_ids(tokenizer),
        text_config=_qwen_text(tokenizer) | {"rope_parameters": rope},
        vision_config=VISION | vision,
    )
    return Qwen2_5_VLForConditionalGeneration(config), _qwen_processor(Qwen2_5_VLProcessor, tokenizer)


def qwen3_vl(tokenizer: Any) -> tuple[Any, Any]:
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLProcessor

    rope = {"rope_type": "default", "mrope_section": [4, 6, 6], "mrope_interleaved": True}
    places = {"num_position_embeddings": (SIDE // PATCH) ** 2, "deepstack_visual_indexes": [0]}
    config = Qwen3VLConfig(
        **_qwen_ids(tokenizer),
        text_config=_qwen_text(tokenizer) | {"head_dim": 32, "rope_parameters": rope},
        vision_config=VISION | {"depth": 2, "num_heads": 2, "out_hidden_size": 128} | places,
    )
    return Qwen3VLForConditionalGeneration(config), _qwen_processor(Qwen3VLProcessor, tokenizer)


def _qwen_text(tokenizer: Any) -> dict[str, Any]:
    return TEXT | {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}


def _qwen_ids(tokenizer: Any) -> dict[str, int]:
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    return dict(zip(names, tokenizer.convert_tokens_to_ids(list(QWEN_TOKENS)), strict=True))


def _qwen_processor(processor: Any, tokenizer: Any) -> Any:
    from transformers import Qwen2VLImageProcessor, Qwen2VLVideoProcessor

    sizes = {"patch_size": PATCH, "merge_size": SCALE, "temporal_patch_size": 2}
    return processor(
        image_processor=Qwen2VLImageProcessor(size={"shortest_edge": 16 * 16, "longest_edge": SIDE * SIDE}, **sizes),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(**sizes),
        chat_template=CHAT_TEMPLATE.replace("{picture}", "<|vision_start|> <|image_pad|> <|vision_end|>"),
    )


@dataclass(frozen=True)
class Architecture:
    tokens: tuple[str, ...]
    make: Callable[[Any], tuple[Any, Any]]


QWEN_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
ARCHITECTURES = {
    "idefics3": Architecture(("<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"), idefics3),
    "qwen2_5_vl": Architecture(QWEN_TOKENS, qwen2_5_vl),
    "qwen3_vl": Architecture(QWEN_TOKENS, qwen3_vl),
}


def make(name: str = "idefics3", seed: int = 0) -> tuple[Any, Any]:
    """The (model, processor) of an architecture, its weights drawn at random. Those of Qwen need torchvision."""
    import torch
    from transformers import GenerationConfig

    architecture = ARCHITECTURES[name]
    tokenizer = make_tokenizer(architecture.tokens)
    torch.manual_seed(seed)
    model, processor = architecture.make(tokenizer)
    model.generation_config = GenerationConfig(eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    return model, processor
