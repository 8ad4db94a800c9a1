"""The policy update beside a bare loop over the same packed tokens: same number format, optimiser and micro-batches.

    python3 benchmarks/train.py [--prompts 4 --samples 8 --max_tokens_per_gpu 2048 --rounds 3]

bare loop       forward, policy gradient, backward, torch AdamW, on tensors that lie ready; no clipping, no metrics
ours            packing by `dispatch` and PolicyTrainer.train_step (DeepSpeed, clipping, metrics), each sample whole
ours, shared    the same with ds.share_prompts: samples of one prompt compute it once

Both run the output head on the sampled tokens only. Tokens are those of the packed batch, prompts included, so they
are the same for all three.
"""

import argparse
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from support.machine import MODEL, Setting, choose_setting, prepare_model, print_header
from support.rounds import Turn, report, take_turns
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from openrlhf.config.algo import AlgoConfig
from openrlhf.config.model import ActorConfig, AdamConfig
from openrlhf.config.train import DsConfig, TrainConfig
from openrlhf.models.load import DTYPES, load_causal_lm, load_config
from openrlhf.pipeline.batching import MicroBatchLimit, dispatch
from openrlhf.rl.logprobs import predictor_index
from openrlhf.train.context import WorkerContext
from openrlhf.train.policy import PolicyTrainer
from openrlhf.types import Experience, MicroBatch

TARGET = 0.8
ADAM = AdamConfig(lr=1e-6)
ATTENTION = "sdpa"


@dataclass(frozen=True, slots=True)
class BareBatch:
    """A micro-batch as tensors on the device."""

    token_ids: torch.Tensor  # (1, N)
    position_ids: torch.Tensor  # (1, N)
    predictors: torch.Tensor  # (A,)
    targets: torch.Tensor  # (A,)
    advantages: torch.Tensor  # (A,)
    total: float

    @classmethod
    def of(cls, batch: MicroBatch, device: str) -> "BareBatch":
        assert batch.advantages is not None
        action_mask = torch.from_numpy(batch.action_mask)
        return cls(
            token_ids=torch.from_numpy(batch.token_ids)[None].to(device),
            position_ids=torch.from_numpy(batch.position_ids)[None].to(device),
            predictors=predictor_index(action_mask, torch.from_numpy(batch.cu_seqlens)).to(device),
            targets=torch.from_numpy(batch.token_ids)[action_mask].to(device),
            advantages=torch.from_numpy(batch.advantages)[action_mask].to(device),
            total=batch.totals.tokens,
        )


def random_experience(args: argparse.Namespace, vocabulary: int) -> Experience:
    """Samples of random tokens; response lengths are uniform between half and all of max_new_tokens."""
    rng = np.random.default_rng(0)
    rows, width = args.prompts * args.samples, args.prompt_tokens + args.max_new_tokens
    lengths = args.prompt_tokens + rng.integers(args.max_new_tokens // 2, args.max_new_tokens + 1, rows)
    group_ids = np.repeat(np.arange(args.prompts), args.samples)
    attention_mask = np.arange(width) < lengths[:, None]
    action_mask = attention_mask & (np.arange(width) >= args.prompt_tokens)
    sequences = np.where(attention_mask, rng.integers(3, vocabulary, (rows, width)), 0)
    sequences[:, : args.prompt_tokens] = sequences[:: args.samples, : args.prompt_tokens][group_ids]
    rewards = rng.normal(size=rows).astype(np.float32)
    return Experience(
        sequences=sequences,
        attention_mask=attention_mask,
        action_mask=action_mask,
        loss_mask=action_mask,
        policy_versions=np.where(action_mask, 0, -1).astype(np.int32),
        rollout_logprobs=np.where(action_mask, -2.0, 0.0).astype(np.float32),
        rewards=rewards,
        scores=np.zeros(rows, dtype=np.float32),
        group_ids=group_ids,
        sample_ids=np.arange(rows),
        truncated=np.zeros(rows, dtype=bool),
        advantages=np.where(action_mask, rewards[:, None], 0.0).astype(np.float32),
    )


def pack_step(experience: Experience, max_tokens: int) -> Sequence[MicroBatch]:
    """All rows as one optimiser step of a single rank, as the pipeline packs it."""
    return dispatch(experience, range(len(experience)), 1, MicroBatchLimit(None, max_tokens)).batches[0]


def bare_step(model: PreTrainedModel, optimizer: torch.optim.Optimizer, batches: Sequence[BareBatch]) -> None:
    for batch in batches:
        output = model(
            input_ids=batch.token_ids,
            position_ids=batch.position_ids,
            logits_to_keep=batch.predictors,
            use_cache=False,
        )
        logprobs = -cross_entropy(output.logits[0].float(), batch.targets, reduction="none")
        ratio = torch.exp(logprobs - logprobs.detach())
        (-(ratio * batch.advantages).sum() / batch.total).backward()
    optimizer.step()
    optimizer.zero_grad()


def make_trainer(args: argparse.Namespace, setting: Setting, context: WorkerContext, shared: bool) -> PolicyTrainer:
    return PolicyTrainer(
        actor=ActorConfig(model_name_or_path=args.model, adam=ADAM, lr_scheduler="constant"),
        ds=DsConfig(
            zero_stage=args.zero_stage, param_dtype=setting.dtype, attn_implementation=ATTENTION, share_prompts=shared
        ),
        train=TrainConfig(),
        algo=AlgoConfig(),
        temperature=1.0,
        context=context,
        total_steps=args.rounds + 1,
    )


def contestants(args: argparse.Namespace, setting: Setting) -> dict[str, Callable[[int], Turn]]:
    """Load a model for each and return what takes the turns."""
    experience = random_experience(args, load_config(args.model).vocab_size)
    tokens = int(experience.attention_mask.sum())
    packed = pack_step(experience, args.max_tokens_per_gpu)
    print(f"{len(experience)} samples, {tokens} tokens in {len(packed)} micro-batches, ZeRO {args.zero_stage}")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        context = WorkerContext(device=setting.device, master_port=probe.getsockname()[1])
    trainers = {shared: make_trainer(args, setting, context, shared) for shared in (False, True)}

    model = load_causal_lm(args.model, DTYPES[setting.dtype], ATTENTION).train()
    model.to(torch.device(setting.device))  # type: ignore[arg-type]  # the stub takes it for a decorator
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=ADAM.lr, betas=ADAM.betas, eps=ADAM.eps, weight_decay=ADAM.weight_decay, fused=True
    )
    ready = [BareBatch.of(batch, setting.device) for batch in packed]

    def ours(shared: bool) -> None:
        trainers[shared].train_step(pack_step(experience, args.max_tokens_per_gpu), 0.0)

    def timed(step: Callable[[], None]) -> Callable[[int], Turn]:
        def turn(number: int) -> Turn:
            started = time.perf_counter()
            step()
            if setting.device == "cuda":
                torch.cuda.synchronize()
            return Turn(tokens, time.perf_counter() - started)

        return turn

    return {
        "bare loop": timed(lambda: bare_step(model, optimizer, ready)),
        "ours": timed(lambda: ours(False)),
        "ours, shared": timed(lambda: ours(True)),
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The policy update beside a bare training loop.")
    parser.add_argument("--model", default=str(MODEL), help="model folder; the default is made when it is missing")
    parser.add_argument("--dtype", choices=["bf16", "fp32"], help="default: what suits the machine")
    parser.add_argument("--prompts", type=int, default=4, help="prompts of the step")
    parser.add_argument("--samples", type=int, default=8, help="samples of each prompt")
    parser.add_argument("--prompt_tokens", type=int, default=64, help="tokens of every prompt")
    parser.add_argument("--max_new_tokens", type=int, default=32, help="tokens of the longest response")
    parser.add_argument("--max_tokens_per_gpu", type=int, default=2048, help="tokens of a micro-batch")
    parser.add_argument("--zero_stage", type=int, choices=[0, 1, 2, 3], default=2, help="DeepSpeed's stage")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each")
    return parser.parse_args()


def main() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    args = parse()
    setting = choose_setting(args.dtype)
    prepare_model(args.model)
    print_header("train", args.model, setting)
    report(take_turns(contestants(args, setting), args.rounds), {"ours": TARGET})


if __name__ == "__main__":
    main()
