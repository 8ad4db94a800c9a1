"""Make the model of the vision example: a random Idefics3 of 0.4 million weights, taught to answer with one word.

    python3 examples/vision/prepare_model.py [folder]

No small pretrained vision-language model comes with a Python package, so this one starts from nothing. It is shown
answers drawn at random, so that it knows the form of an answer and nothing about pictures: what it knows of those after
the run, it has learnt by reinforcement.
"""

import random
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from make_data import QUESTIONS
from pictures import COLOURS, MOST_SHAPES, SIDE, square

DEFAULT_FOLDER = Path(".models/tiny-idefics3")
PATCH, SCALE = 8, 2  # a picture is (32 / 8 / 2)^2 = 4 tokens
IMAGE, AROUND, WHOLE, TURN_END = "<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"
PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
ANSWERS = {"colour": tuple(COLOURS), "count": tuple(str(n) for n in range(1, MOST_SHAPES + 1))}
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }} : {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %} {% endfor %}"
    "{% if add_generation_prompt %}assistant : {% endif %}"
)
STEPS, BATCH, RATE = 40, 16, 1e-3


def make_tokenizer() -> Any:
    """One token per word of the example."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = (PAD, END, UNKNOWN, IMAGE, AROUND, WHOLE, TURN_END)
    chat = ("user", "assistant", "system", ":", "look", "again", "at", "wrong")
    words = [word for question in QUESTIONS.values() for word in question.split()]
    answers = [answer for group in ANSWERS.values() for answer in group]
    vocabulary = list(dict.fromkeys((*special, *chat, *words, *answers)))
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token=UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        additional_special_tokens=[IMAGE, AROUND, WHOLE, TURN_END],
        clean_up_tokenization_spaces=False,
    )


def make_model(tokenizer: Any, seed: int = 0) -> Any:
    from transformers import GenerationConfig, Idefics3Config, Idefics3ForConditionalGeneration

    config = Idefics3Config(
        image_token_id=tokenizer.convert_tokens_to_ids(IMAGE),
        scale_factor=SCALE,
        pad_token_id=tokenizer.pad_token_id,
        vision_config={
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": SIDE,
            "patch_size": PATCH,
        },
        text_config={
            "model_type": "llama",
            "vocab_size": 64,
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "max_position_embeddings": 512,
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "bos_token_id": None,
        },
    )
    torch.manual_seed(seed)
    model = Idefics3ForConditionalGeneration(config)
    model.generation_config = GenerationConfig(eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    return model


def make_processor(tokenizer: Any) -> Any:
    from transformers import Idefics3ImageProcessorPil, Idefics3Processor

    pixels = Idefics3ImageProcessorPil(
        size={"longest_edge": SIDE}, max_image_size={"longest_edge": SIDE}, do_image_splitting=False
    )
    length = (SIDE // PATCH // SCALE) ** 2
    return Idefics3Processor(pixels, tokenizer, image_seq_len=length, chat_template=CHAT_TEMPLATE)


def prompt_of(processor: Any, task: str) -> str:
    content = [{"type": "image"}, {"type": "text", "text": f" {QUESTIONS[task]}"}]
    return processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)


def teach_the_form(model: Any, processor: Any, seed: int = 0) -> None:
    """Maximise the likelihood of answers that have nothing to do with the pictures."""
    rng = random.Random(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)
    tokenizer = processor.tokenizer
    for _ in range(STEPS):
        task = rng.choice(list(QUESTIONS))
        pictures = [[square(rng.choice(list(COLOURS)), rng)] for _ in range(BATCH)]
        inputs = processor(text=[prompt_of(processor, task)] * BATCH, images=pictures, return_tensors="pt")
        words = [tokenizer.convert_tokens_to_ids(rng.choice(ANSWERS[task])) for _ in range(BATCH)]
        answer = torch.tensor([[word, tokenizer.eos_token_id] for word in words])
        ids = torch.cat([inputs.pop("input_ids"), answer], dim=1)
        inputs.pop("attention_mask")
        logits = model(input_ids=ids, use_cache=False, **inputs).logits[:, -3:-1]
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), answer.flatten()).backward()
        optimiser.step()
        optimiser.zero_grad()


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FOLDER
    made_processor = make_processor(make_tokenizer())
    made = make_model(made_processor.tokenizer)
    teach_the_form(made, made_processor)
    made.save_pretrained(target)
    made_processor.save_pretrained(target)
    print(f"{target}: {sum(weight.numel() for weight in made.parameters())} weights")
