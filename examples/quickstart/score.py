"""Score a model on held-out prompts with plain transformers: no Ray, no vLLM, nothing of openrlhf.

    python3 examples/quickstart/score.py --model FOLDER --data test.jsonl --reward_func reward_func.py [--output x.json]

Prints a line per pass on stderr, then one JSON object: the mean reward of greedy decoding and of sampling at
temperature 1 (`--samples` per prompt).
"""

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def load_reward_func(path: Path) -> Callable[..., dict]:
    spec = importlib.util.spec_from_file_location("reward_func", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.reward_func


def render(tokenizer: Any, prompt: str | list[dict]) -> str:
    """Chat messages go through the chat template, a plain string is used as it is."""
    if isinstance(prompt, str):
        return prompt
    return tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)


def cut_after(ids: list[int], eos: int) -> list[int]:
    """The reply up to and with its first end token. Not by the pad id: for this model it is the same id."""
    return ids[: ids.index(eos) + 1] if eos in ids else ids


@torch.no_grad()
def reply_queries(model: Any, tokenizer: Any, prompts: list[str], max_new_tokens: int, **sampling: Any) -> list[str]:
    """Return prompt and reply as one text per prompt, special tokens kept."""
    batch = tokenizer(
        prompts,
        return_tensors="pt",
        padding=True,
        padding_side="left",
        add_special_tokens=False,
        return_attention_mask=True,
    )
    output = model.generate(
        input_ids=batch["input_ids"].to(model.device),
        attention_mask=batch["attention_mask"].to(model.device),
        max_new_tokens=max_new_tokens,
        top_k=0,
        top_p=1.0,
        pad_token_id=tokenizer.pad_token_id,
        **sampling,
    )
    replies = output[:, batch["input_ids"].shape[1] :].tolist()
    eos = tokenizer.eos_token_id
    return [
        prompt + tokenizer.decode(cut_after(ids, eos), skip_special_tokens=False)
        for prompt, ids in zip(prompts, replies, strict=True)
    ]


def score(arguments: argparse.Namespace) -> dict[str, float]:
    os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_DISABLE_PROGRESS_BARS="1")  # one line of output
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32)
    model = model.to(device).eval()
    reward_func = load_reward_func(arguments.reward_func)
    rows = [json.loads(line) for line in arguments.data.read_text(encoding="utf-8").splitlines()]
    prompts = [render(tokenizer, row["prompt"]) for row in rows]
    labels = [row["label"] for row in rows]

    def mean_reward(**sampling: Any) -> float:
        queries = reply_queries(model, tokenizer, prompts, arguments.max_new_tokens, **sampling)
        if arguments.show:
            print("\n".join(repr(query) for query in queries[: arguments.show]))
        reward = float(torch.as_tensor(reward_func(queries, prompts, labels)["rewards"]).mean())
        how = "sampled" if sampling["do_sample"] else "greedy"
        print(f"   {len(prompts)} replies, {how}: mean reward {reward:.3f}", file=sys.stderr, flush=True)
        return reward

    greedy = mean_reward(do_sample=False)
    torch.manual_seed(arguments.seed)
    sampled = [mean_reward(do_sample=True, temperature=1.0) for _ in range(arguments.samples)]
    return {"prompts": len(prompts), "greedy": round(greedy, 4), "sampled": round(sum(sampled) / len(sampled), 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--reward_func", type=Path, required=True)
    parser.add_argument("--max_new_tokens", type=int, default=24)
    parser.add_argument("--samples", type=int, default=4, help="sampled replies per prompt")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=0, help="print this many replies of each pass")
    parser.add_argument("--output", type=Path, help="also write the JSON object here")
    arguments = parser.parse_args()
    result = json.dumps(score(arguments))
    if arguments.output is not None:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(result + "\n", encoding="utf-8")
    print(result)


if __name__ == "__main__":
    main()
