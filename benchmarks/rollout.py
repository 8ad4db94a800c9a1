"""Rollouts through our layers beside vLLM's own AsyncLLM: the same requests, the same engine settings, in turn.

    python3 benchmarks/rollout.py [--prompts 8 --samples 8 --max_new_tokens 64 --rounds 5]

AsyncLLM   driven directly with token ids; timed inside its process, so that nothing of Ray is in its number
ours       EngineGroup -> Ray -> RolloutGenerator -> SingleTurnExecutor -> VllmEngine -> reward function -> Ray;
           timed in the driver, from text prompts to graded groups

Every response has exactly max_new_tokens tokens (min_tokens = max_tokens), and every round has prompts of its own.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from support.machine import MODEL, Setting, choose_setting, prepare_model, print_header
from support.rounds import Turn, report, take_turns
from transformers import PreTrainedTokenizerBase

from openrlhf.cluster.engines import EngineGroup
from openrlhf.cluster.placement import Seat
from openrlhf.cluster.session import ray_session, threads_per_process
from openrlhf.cluster.specs import EngineSpec, GroupRequest
from openrlhf.cluster.wait import gather
from openrlhf.config.data import DataConfig
from openrlhf.config.reward import RewardConfig
from openrlhf.config.rollout import VllmConfig
from openrlhf.config.run import ClusterConfig
from openrlhf.models.tokenizer import load_tokenizer
from openrlhf.rollout.vllm.args import VllmEngineArgs
from openrlhf.rollout.vllm.environment import engine_environment
from openrlhf.types import Prompt, SamplingParams

TARGET = 0.9
REWARD = Path(__file__).parent / "support/no_reward.py"
LIMITS = ClusterConfig()


@ray.remote
class PlainEngine:
    """vLLM's engine with nothing of ours around it; Ray only gives it a process."""

    async def start(self, args: VllmEngineArgs) -> None:
        from openrlhf.rollout.vllm.environment import silence_import

        silence_import()
        from vllm.v1.engine.async_llm import AsyncLLM

        from openrlhf.rollout.vllm.engine import engine_args

        self._llm = AsyncLLM.from_engine_args(engine_args(args))
        self._requests = 0

    async def generate(self, prompts: Sequence[list[int]], samples: int, sampling: SamplingParams) -> Turn:
        from openrlhf.rollout.vllm.requests import to_vllm_sampling

        started = time.perf_counter()
        params = to_vllm_sampling(sampling, ())
        requests = [self._sample(ids, params) for ids in prompts for _ in range(samples)]
        return Turn(sum(await asyncio.gather(*requests)), time.perf_counter() - started)

    async def _sample(self, token_ids: list[int], params: Any) -> int:
        self._requests += 1
        outputs = self._llm.generate({"prompt_token_ids": token_ids}, params, str(self._requests))
        return sum([len(output.outputs[0].token_ids) async for output in outputs])  # one output, the finished one

    async def shutdown(self) -> None:
        self._llm.shutdown()


class Contest:
    """Both engines, loaded, and the prompts they share."""

    def __init__(self, args: argparse.Namespace, setting: Setting) -> None:
        self._args = args
        self._tokenizer: PreTrainedTokenizerBase = load_tokenizer(args.model)
        self._sampling = SamplingParams(max_tokens=args.max_new_tokens, min_tokens=args.max_new_tokens)
        vllm = VllmConfig(dtype=setting.dtype, max_num_seqs=args.max_num_seqs, gpu_memory_utilization=0.4)
        seat = Seat({"num_cpus": 0, "num_gpus": 0.5 if setting.device == "cuda" else 0})
        spec = EngineSpec(
            model_name_or_path=args.model,
            vllm=vllm,
            data=DataConfig(max_len=args.max_len),
            reward=RewardConfig(remote_url=str(REWARD)),
            device=setting.device,
            seed=0,
            sync_timeout=LIMITS.sync_timeout,
        )
        self._ours = EngineGroup([seat], spec, LIMITS)
        gather(self._ours.begin_start(), "load the model", LIMITS.start_timeout)
        environment = {"env_vars": engine_environment(setting.device, threads_per_process(1))}
        plain_class: Any = PlainEngine
        self._plain = plain_class.options(**seat.options, runtime_env=environment).remote()
        self._call_plain(self._plain.start.remote(VllmEngineArgs(args.model, vllm, setting.device, args.max_len)))

    def plain(self, number: int) -> Turn:
        token_ids = [self._tokenizer(text, add_special_tokens=False)["input_ids"] for text in self._texts(number)]
        turn: Turn = self._call_plain(self._plain.generate.remote(token_ids, self._args.samples, self._sampling))
        return turn

    def ours(self, number: int) -> Turn:
        requests = [
            GroupRequest(Prompt(index, text), f"{number}:{index}", self._args.samples, self._sampling)
            for index, text in enumerate(self._texts(number))
        ]
        started = time.perf_counter()
        self._ours.submit(requests)
        groups = [self._ours.next_group().group for _ in requests]
        seconds = time.perf_counter() - started
        return Turn(sum(rollout.num_actions for group in groups for rollout in group.rollouts), seconds)

    def close(self) -> None:
        self._call_plain(self._plain.shutdown.remote())
        self._ours.end()

    def _texts(self, number: int) -> list[str]:
        """Prompts that no other round has: a cache of earlier ones would help nobody."""
        start = number * self._args.prompts
        return [f"{self._args.prompt} {start + index}:" for index in range(self._args.prompts)]

    @staticmethod
    def _call_plain(ref: Any) -> Any:
        return gather({ref: "AsyncLLM"}, "generate", LIMITS.rollout_timeout)[0]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Rollouts through our layers beside vLLM's AsyncLLM.")
    parser.add_argument("--model", default=str(MODEL), help="model folder; the default is made when it is missing")
    parser.add_argument("--dtype", choices=["bf16", "fp32"], help="default: what suits the machine")
    parser.add_argument("--prompts", type=int, default=8, help="prompts of a round")
    parser.add_argument("--samples", type=int, default=8, help="samples of each prompt")
    parser.add_argument("--max_new_tokens", type=int, default=64, help="tokens of every response")
    parser.add_argument("--max_len", type=int, default=512, help="tokens of prompt and response together")
    parser.add_argument("--max_num_seqs", type=int, default=128, help="requests that decode at the same time")
    parser.add_argument("--prompt", default="Tell a short story about a lighthouse keeper and number", help="its text")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    return parser.parse_args()


def main() -> None:
    args = parse()
    setting = choose_setting(args.dtype)
    prepare_model(args.model)
    print_header("rollout", args.model, setting)
    print(f"{args.prompts} prompts x {args.samples} samples x {args.max_new_tokens} tokens a round")
    with ray_session(setting.device):
        contest = Contest(args, setting)
        turns = take_turns({"AsyncLLM": contest.plain, "ours": contest.ours}, args.rounds)
        contest.close()
    report(turns, {"ours": TARGET})


if __name__ == "__main__":
    main()
