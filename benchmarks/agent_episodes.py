"""256 episodes of an agent at once: is every one accounted for, and what do episodes cost beside the engine alone?

    python3 benchmarks/agent_episodes.py [--random_model --episodes 256 --turns 2]

With `--random_model` a random Llama of two layers samples: an engine that costs next to nothing, beside which whatever
the episodes cost shows most.

First a rough environment: it answers after random delays, and some of its episodes raise, hang, or give no reward. Each
sample must end as it was meant to, with no other episode's text in it. Then a fast environment: its tokens per second
beside those of the same requests sent to the engine directly, turn after turn, which is what the engine can do.
"""

import argparse
import asyncio
import os
import random
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import small_run
from support.machine import MODEL, Setting, choose_setting, prepare_model, print_header
from support.rounds import Turn, report, take_turns

from openrlhf.types import Prompt, Rollout, SamplingParams

TARGET = 0.9
TIMEOUT_S, SLOWEST_S = 6.0, 2.0  # of one call of the environment
FATES = {"graded": 0.7, "raises in reset": 0.08, "raises in step": 0.08, "hangs": 0.07, "no reward": 0.07}
MARK = re.compile(r"#(\d+)#")


@dataclass(frozen=True, slots=True)
class Plan:
    """What one episode is meant to be like."""

    number: int
    fate: str
    delays: tuple[float, ...]  # of reset, and of each step

    @property
    def mark(self) -> str:
        """In the prompt and in all feedback of this episode, and in no other's."""
        return f"#{self.number}#"


def make_plans(episodes: int, turns: int, generator: random.Random) -> list[Plan]:
    fates = generator.choices(list(FATES), list(FATES.values()), k=episodes)
    return [
        Plan(number, fate, tuple(generator.uniform(0, SLOWEST_S) for _ in range(turns + 1)))
        for number, fate in enumerate(fates)
    ]


def rough_environment(plans: Sequence[Plan], turns: int) -> type:
    """An agent class that keeps to the plans; which one is in its prompt."""
    from openrlhf.rollout.agent import AgentInstanceBase

    class Rough(AgentInstanceBase):
        async def reset(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
            self.plan = plans[int(states["label"])]
            await asyncio.sleep(self.plan.delays[0])
            if self.plan.fate == "raises in reset":
                raise KeyError(f"no level {self.plan.mark}")
            return {"observation": states["observation"]}

        async def step(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
            last = states["turn"] == turns - 1
            await asyncio.sleep(self.plan.delays[states["turn"] + 1])
            if last and self.plan.fate == "raises in step":
                raise RuntimeError(f"lost {self.plan.mark}")
            if last and self.plan.fate == "hangs":
                await asyncio.sleep(100 * TIMEOUT_S)
            reward = None if self.plan.fate == "no reward" else float(self.plan.number)
            return {"rewards": reward if last else 0.0, "done": last, "environment_feedback": f" {self.plan.mark} "}

    return Rough


def faults_of(plan: Plan, rollout: Rollout, tokenizer: Any, turns: int) -> list[str]:
    """What is wrong with a sample, given what it was meant to be."""
    reason = rollout.outcome.reason
    meant = {
        "graded": rollout.outcome.reward == plan.number,
        "raises in reset": "reset raised KeyError" in reason and plan.mark in reason,
        "raises in step": "step raised RuntimeError" in reason and plan.mark in reason,
        "hangs": "took longer than" in reason,
        "no reward": "None" in reason,
    }
    faults = [] if meant[plan.fate] else [f"{plan.mark}: {plan.fate}, but {rollout.outcome}"]
    for segment in rollout.segments:
        given = tokenizer.decode(segment.token_ids[~segment.action_mask].tolist())
        if strangers := set(MARK.findall(given)) - {str(plan.number)}:
            faults.append(f"{plan.mark}: text of episodes {sorted(strangers)} in it")
        if len(segment.turns) != turns:
            faults.append(f"{plan.mark}: {len(segment.turns)} turns")
    if (not rollout.segments) != (plan.fate == "raises in reset"):
        faults.append(f"{plan.mark}: {plan.fate} with {len(rollout.segments)} segments")
    return faults


class Arena:
    """One engine, and episodes on it."""

    def __init__(self, model: str, arguments: argparse.Namespace, setting: Setting) -> None:
        from openrlhf.config.rollout import VllmConfig
        from openrlhf.models.tokenizer import load_tokenizer
        from openrlhf.rollout.vllm.args import VllmEngineArgs
        from openrlhf.rollout.vllm.engine import VllmEngine

        self._arguments = arguments
        self.tokenizer = load_tokenizer(model)
        config = VllmConfig(dtype=setting.dtype, enforce_eager=True, max_num_seqs=arguments.episodes)
        self._engine = VllmEngine(VllmEngineArgs(model, config, setting.device, self.max_length))
        self._loop = asyncio.Runner()
        self._loop.run(self._engine.start())

    @property
    def max_length(self) -> int:
        """A prompt or feedback has at most as many tokens as characters."""
        return 80 + self._arguments.turns * (self._arguments.max_new_tokens + 16)

    def close(self) -> None:
        self._engine.shutdown()
        self._loop.close()

    def play(self, agent: type, plans: Sequence[Plan], round_: int = 0) -> list[Rollout]:
        """All episodes at once, through the generator and the executor of agents."""
        from openrlhf.rollout.generator import RolloutGenerator
        from openrlhf.rollout.multi_turn import MultiTurnAgentExecutor

        executor = MultiTurnAgentExecutor(agent, timeout_s=TIMEOUT_S)
        generator = RolloutGenerator(self._engine, executor, None, self.tokenizer, self.max_length)

        async def run() -> list[Rollout]:
            prompts = [Prompt(plan.number, self._prompt(plan, round_), str(plan.number)) for plan in plans]
            groups = [
                generator.run_group(prompt, f"{prompt.prompt_id}", 1, self._sampling(), [None]) for prompt in prompts
            ]
            results = await asyncio.gather(*groups)
            return [result.group.rollouts[0] for result in results]

        return self._loop.run(run())

    def ask_directly(self, plans: Sequence[Plan], round_: int) -> int:
        """The same requests without any agent, each episode's one after the other; returns the sampled tokens."""
        prompts = [self._ids(self._prompt(plan, round_)) for plan in plans]
        feedback = [self._ids(f" {plan.mark} ") for plan in plans]

        async def episode(ids: list[int], answer: list[int]) -> int:
            sampled = 0
            for _ in range(self._arguments.turns):
                completion = await self._engine.generate(ids, self._sampling())
                ids = [*ids, *completion.token_ids.tolist(), *answer]
                sampled += len(completion.token_ids)
            return sampled

        async def run() -> int:
            return sum(await asyncio.gather(*map(episode, prompts, feedback)))

        return self._loop.run(run())

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _prompt(self, plan: Plan, round_: int) -> str:
        return f"Round {round_}. Episode {plan.mark} begins. You see a door. What do you do?"

    def _sampling(self) -> SamplingParams:
        tokens = self._arguments.max_new_tokens
        return SamplingParams(max_tokens=tokens, min_tokens=tokens)


def check_rough(arena: Arena, arguments: argparse.Namespace) -> None:
    """Ends the process with a list of faults unless all is as it was meant to be."""
    plans = make_plans(arguments.episodes, arguments.turns, random.Random(arguments.seed))
    start = time.perf_counter()
    rollouts = arena.play(rough_environment(plans, arguments.turns), plans)
    seconds = time.perf_counter() - start
    faults = [
        fault
        for plan, rollout in zip(plans, rollouts, strict=True)
        for fault in faults_of(plan, rollout, arena.tokenizer, arguments.turns)
    ]
    if faults:
        raise SystemExit("\n".join(faults))
    print(f"rough environment: {len(rollouts)} episodes at once in {seconds:.1f} s, all as they were meant to be:")
    print("  " + ", ".join(f"{count} {fate}" for fate, count in sorted(Counter(plan.fate for plan in plans).items())))


def compare_fast(arena: Arena, arguments: argparse.Namespace) -> None:
    """Tokens per second of episodes beside those of the engine, and the CPU time of this process, which bears a busy
    machine better."""
    plans = [Plan(number, "graded", (0.0,) * (arguments.turns + 1)) for number in range(arguments.episodes)]
    fast = rough_environment(plans, arguments.turns)
    cpu_seconds: dict[str, list[float]] = {"engine": [], "episodes": []}

    def timed(name: str, play: Callable[[], int]) -> Turn:
        start, used = time.perf_counter(), time.process_time()
        tokens = play()
        cpu_seconds[name].append(time.process_time() - used)
        return Turn(tokens, time.perf_counter() - start)

    def engine(round_: int) -> Turn:
        return timed("engine", lambda: arena.ask_directly(plans, 2 * round_ + 1))

    def agent(round_: int) -> Turn:
        return timed("episodes", lambda: sum(one.num_actions for one in arena.play(fast, plans, 2 * round_ + 2)))

    report(take_turns({"engine": engine, "episodes": agent}, arguments.rounds), {"episodes": TARGET})
    calls = arguments.episodes * arguments.turns
    shown = (f"{name} {statistics.median(used[1:]) / calls * 1e3:.2f} ms" for name, used in cpu_seconds.items())
    print("CPU time of this process, the engine's core aside, for each turn of an episode:", ", ".join(shown))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(MODEL), help="model folder; the default is made when it is missing")
    parser.add_argument("--random_model", action="store_true", help="a random Llama of two layers instead")
    parser.add_argument("--dtype", choices=["bf16", "fp32"], help="default: what suits the machine")
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--max_new_tokens", type=int, default=8, help="of each turn, always used up")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the rough environment")
    arguments = parser.parse_args()
    from openrlhf.rollout.vllm.environment import engine_environment

    setting = choose_setting(arguments.dtype)
    os.environ.update(engine_environment(setting.device, threads=len(os.sched_getaffinity(0))))
    with tempfile.TemporaryDirectory() as folder:
        model = arguments.model
        if arguments.random_model:
            model = str(Path(folder) / "random-llama")
            small_run.make_model(Path(model))
        prepare_model(model)
        print_header("episodes of an agent", model, setting)
        arena = Arena(model, arguments, setting)
        try:
            check_rough(arena, arguments)
            compare_fast(arena, arguments)
        finally:
            arena.close()


if __name__ == "__main__":
    main()
