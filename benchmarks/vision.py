"""What images cost the trainer: scoring sequences with pictures beside text of exactly as many tokens.

    python3 benchmarks/vision.py --model .models/tiny-idefics3 --prompts 16 --samples 8

Each prompt shows one picture and has `samples` responses. Rows: text; pictures, each sample running its own; pictures
of which the samples of a prompt share the run (`--ds.share_prompts`). Forward passes only, on the CPU or a GPU; the
processor's work is measured apart, since its results are kept. Without a model folder the example's is made.
"""

import argparse
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from openrlhf.images import read_image
from openrlhf.models.layout import Layout
from openrlhf.models.load import load_causal_lm, load_config
from openrlhf.models.replica import ReplicaBackend
from openrlhf.models.vision.inputs import VisionInputs
from openrlhf.models.vision.processor import PIXEL_BYTES, VisionProcessor
from openrlhf.train.forward import token_logprobs
from openrlhf.types import EncodedImage, MicroBatch, StepTotals

SIDE = 224
ROUNDS = 5  # in turn; the best one counts: a busy machine only makes them slower
ROOT = Path(__file__).resolve().parents[1]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=".models/tiny-idefics3")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--response", type=int, default=32, help="tokens of a response")
    return parser.parse_args()


def pictures(count: int) -> list[EncodedImage]:
    rng = random.Random(0)
    return [read_image(Image.new("RGB", (SIDE, SIDE), tuple(rng.choices(range(256), k=3)))) for _ in range(count)]


def micro_batch(prompts: list[list[int]], images: list[EncodedImage] | None, samples: int, response: int) -> MicroBatch:
    rng = np.random.default_rng(0)
    sequences, masks = [], []
    for prompt in prompts:
        for _ in range(samples):
            sequences.append([*prompt, *rng.integers(8, 24, response)])
            masks.append([False] * len(prompt) + [True] * response)
    lengths = [len(sequence) for sequence in sequences]
    mask = np.concatenate(masks)
    return MicroBatch(
        token_ids=np.concatenate(sequences).astype(np.int64),
        position_ids=np.concatenate([np.arange(length) for length in lengths]),
        cu_seqlens=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        action_mask=mask,
        loss_mask=mask,
        rollout_logprobs=np.zeros(len(mask), dtype=np.float32),
        rows=np.arange(len(sequences)),
        totals=StepTotals(float(mask.sum()), float(len(sequences))),
        images=None if images is None else tuple((image,) for image in images for _ in range(samples)),
    )


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    args = arguments()
    if not Path(args.model).exists():
        subprocess.run([sys.executable, ROOT / "examples/vision/prepare_model.py", args.model], check=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    backend = ReplicaBackend(load_causal_lm(args.model, torch.float32, "sdpa"), device)
    processor = VisionProcessor(args.model, load_config(args.model), max_images=1, pixel_bytes=PIXEL_BYTES)
    vision = VisionInputs(processor)
    shown = pictures(args.prompts)
    start = time.perf_counter()
    seen = [[*processor.tokens(image), *range(8, 16)] for image in shown]
    print(f"processor: {1000 * (time.perf_counter() - start) / len(shown):.1f} ms a picture, once")
    text = [[8 + (token + i) % 16 for i, token in enumerate(prompt)] for prompt in seen]
    cases: list[tuple[str, list[list[int]], list[EncodedImage] | None, Layout]] = [
        ("text", text, None, "packed"),
        ("text, shared", text, None, "shared"),
        ("pictures", seen, shown, "packed"),
        ("pictures, shared", seen, shown, "shared"),
    ]
    batches = {name: micro_batch(prompts, images, args.samples, args.response) for name, prompts, images, _ in cases}
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
        for name, _, _, layout in cases:
            found[name].append(
                seconds(
                    lambda name=name, layout=layout: token_logprobs(
                        backend, [batches[name]], layout=layout, temperature=1.0, vision=vision
                    )
                )
            )
    for name, batch in batches.items():
        best, tokens = min(found[name]), len(batch.token_ids)
        print(f"{name:18} {tokens:6} tokens {best:7.3f} s {tokens / best:9.0f} tokens/s")


if __name__ == "__main__":
    main()
