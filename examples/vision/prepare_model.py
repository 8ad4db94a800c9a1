"""Make the model of the vision example: random, of 0.4 million weights, taught to answer with one word.

    python3 examples/vision/prepare_model.py [folder] [idefics3, qwen2_5_vl or qwen3_vl]

No small pretrained vision-language model comes with a Python package, so this one starts from nothing. It is shown
answers drawn at random, so that it knows the form of an answer and nothing about pictures: what it knows of those after
the run, it has learnt by reinforcement.
"""

import argparse
import random
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from make_data import QUESTIONS
from models import ANSWERS, ARCHITECTURES, make
from pictures import COLOURS, square

STEPS, BATCH, RATE = 40, 16, 1e-3


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
        if "mm_token_type_ids" in inputs:  # Qwen: 0 is text
            kinds = inputs.pop("mm_token_type_ids")
            inputs["mm_token_type_ids"] = torch.cat([kinds, torch.zeros_like(answer)], dim=1)
        logits = model(input_ids=ids, use_cache=False, **inputs).logits[:, -3:-1]
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), answer.flatten()).backward()
        optimiser.step()
        optimiser.zero_grad()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default=".models/tiny-idefics3")
    parser.add_argument("architecture", nargs="?", default="idefics3", choices=ARCHITECTURES)
    args = parser.parse_args()
    made, made_processor = make(args.architecture)
    teach_the_form(made, made_processor)
    made.save_pretrained(args.folder)
    made_processor.save_pretrained(args.folder)
    print(f"{args.folder}: {sum(weight.numel() for weight in made.parameters())} weights")
