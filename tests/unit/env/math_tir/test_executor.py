"""Whole episodes of text and Python with a scripted policy and a scripted runner: tokens, budgets, repeats, counts."""

import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from openrlhf.config.env import EnvConfig
from openrlhf.env.code_result import CodeResult
from openrlhf.env.code_runner import RunnerDown
from openrlhf.env.code_tool import CodeTool
from openrlhf.env.math_tir.episode import TOO_LONG
from openrlhf.env.math_tir.executor import MathTirExecutor, NoGeneration
from openrlhf.env.math_tir.turns import ENDS, FENCES, OPEN
from openrlhf.rollout.errors import EngineDead
from openrlhf.types import Completion, SamplingParams, Status, Trajectory
from tests.fakes import EngineCall, FakeTokenizer, ScriptedEngine, ScriptedRunner, completion


async def no_pause(seconds: float) -> None: ...


def stopped(text: str) -> Completion:
    return completion(text, eos=False, finish_reason="stop")


def saying(*actions: Completion | Exception) -> ScriptedEngine:
    """A policy that says these things one after the other."""
    left = list(actions)
    return ScriptedEngine(lambda call: left.pop(0))


def printing(code: str) -> CodeResult:
    return CodeResult("42", error=False)


async def play(
    engine: ScriptedEngine,
    run: Callable[[str], CodeResult] = printing,
    *,
    prompt: str = "6*7?",
    max_tokens: int | None = 400,
    max_length: int = 500,
    sampling: SamplingParams | None = None,
    tokenizer: FakeTokenizer | None = None,
    **settings: object,
) -> tuple[Trajectory, ScriptedRunner]:
    env = EnvConfig.model_validate(settings)
    runner = ScriptedRunner(run)
    executor = MathTirExecutor(env, CodeTool(env, runner, no_pause), no_pause)
    sampling = sampling or SamplingParams(max_tokens=max_tokens)
    trajectory = await executor.execute(prompt, "", sampling, max_length, tokenizer or FakeTokenizer(), engine)
    await executor.close()
    assert runner.closed
    return trajectory, runner


def texts(trajectory: Trajectory) -> tuple[str, str]:
    """(all text, the sampled text) of a trajectory."""
    (segment,) = trajectory.segments
    decode = FakeTokenizer().decode
    return decode(segment.token_ids.tolist()), decode(segment.token_ids[segment.action_mask].tolist())


ROUND = (stopped(f"I compute {OPEN}"), stopped("\nprint(6*7)\n```"))
BLOCK = "\n```output\n42\n```\n\n\n"


async def test_a_round_of_code_and_the_answer():
    engine = saying(*ROUND, completion("It is 42."))
    trajectory, runner = await play(engine)
    everything, sampled = texts(trajectory)
    assert everything == f"6*7?I compute {OPEN}\nprint(6*7)\n```{BLOCK}It is 42.<eos>"
    assert sampled == f"I compute {OPEN}\nprint(6*7)\n```It is 42.<eos>"
    assert runner.programs == ["print(6*7)\n"]
    (segment,) = trajectory.segments
    # The result of the program: mask 0, logprob 0, version -1. Each action keeps the numbers it was sampled with.
    block = slice(everything.index(BLOCK), everything.index(BLOCK) + len(BLOCK))
    assert not segment.action_mask[block].any()
    assert not segment.loss_mask[block].any()
    assert (segment.logprobs[block] == 0).all()
    assert (segment.policy_versions[block] == -1).all()
    first = segment.turns[0]
    assert segment.logprobs[first.start : first.end].tolist() == ROUND[0].logprobs.tolist()
    assert len(segment.turns) == 3
    assert (trajectory.truncated, trajectory.outcome) == (False, None)
    assert trajectory.facts == {
        "code_runs": 1.0,
        "code_errors": 0.0,
        "runner_down": 0.0,
        "last_failed": 0.0,
        "code_success_rate": 1.0,
    }


async def test_every_request_continues_the_tokens_so_far_with_its_own_stops():
    engine = saying(*ROUND, completion("42"))
    (segment,) = (await play(engine, code={"rounds": 1}))[0].segments
    assert [call.sampling.stop for call in engine.calls] == [(*ENDS, OPEN), (*ENDS, *FENCES), ENDS]
    assert all(call.sampling.include_stop_str_in_output for call in engine.calls)
    for call, turn in zip(engine.calls, segment.turns, strict=True):
        assert call.prompt_token_ids == segment.token_ids[: turn.start].tolist()
    # 400 tokens for the response, results included.
    assert [call.sampling.max_tokens for call in engine.calls] == [400 - (turn.start - 4) for turn in segment.turns]


async def test_sampled_ids_are_never_tokenised_again():
    class Merging(FakeTokenizer):
        """Writes `00` as one token, which the policy samples as two."""

        def __call__(self, text: str, add_special_tokens: bool = True, **settings: bool) -> dict[str, list[int]]:
            return super().__call__(text.replace("00", chr(0x10FFFF)), add_special_tokens, **settings)

    engine = saying(stopped(f"100 {OPEN}"), stopped("\nprint(100)\n```"), completion("100"))
    trajectory, _ = await play(engine, lambda code: CodeResult("100", error=False), tokenizer=Merging())
    (segment,) = trajectory.segments
    zeros = [chr(token) for token in segment.token_ids[segment.action_mask]].count("0")
    merged = segment.token_ids == 0x10FFFF
    assert zeros == 6
    assert merged.sum() == 1
    assert not segment.action_mask[merged].any()


async def test_the_own_stops_and_bias_of_the_sampling_stay():
    engine = saying(completion("42"))
    await play(engine, sampling=SamplingParams(max_tokens=9, stop=("halt",), logit_bias={5: 1.0}, seed=7))
    (call,) = engine.calls
    assert call.sampling.stop == ("halt", *ENDS, OPEN)
    assert (call.sampling.logit_bias, call.sampling.seed) == ({5: 1.0}, 7)


async def test_every_turn_has_a_seed_of_its_own():
    engine = saying(*ROUND, completion("42"))
    await play(engine, sampling=SamplingParams(max_tokens=400, seed=7))
    assert len({call.sampling.seed for call in engine.calls}) == 3


async def test_a_long_result_is_replaced_by_a_line_that_says_so():
    result = CodeResult("x" * 300, error=False)
    trajectory, _ = await play(saying(*ROUND, completion("42")), lambda code: result, max_length=900, max_tokens=800)
    assert f"\n```output\n{TOO_LONG}\n```\n\n\n" in texts(trajectory)[0]
    # The whole block counts: 11 characters before the result and 7 after it.
    fits = CodeResult("x" * (256 - 18), error=False)
    trajectory, _ = await play(saying(*ROUND, completion("42")), lambda code: fits, max_length=900, max_tokens=800)
    assert fits.text in texts(trajectory)[0]


async def test_an_empty_block_is_not_run_and_the_policy_goes_on():
    trajectory, runner = await play(saying(stopped(OPEN), stopped("\n```"), completion("42")))
    assert runner.programs == []
    assert texts(trajectory)[0] == f"6*7?{OPEN}\n```42<eos>"
    assert "code_success_rate" not in trajectory.facts


async def test_an_end_is_an_end_and_no_end_token_is_added():
    """The trajectory holds what was sampled and nothing else, also where the policy did not say its end token."""
    trajectory, _ = await play(saying(stopped("42</answer>")))
    assert texts(trajectory) == ("6*7?42</answer>", "42</answer>")
    assert not trajectory.truncated


async def test_the_budget_counts_results_and_cuts_what_does_not_fit():
    text, code = ROUND
    used = len(text.token_ids) + len(code.token_ids)
    engine = saying(*ROUND, completion("no"))
    trajectory, _ = await play(engine, max_tokens=used + 10)
    assert texts(trajectory)[0].endswith(BLOCK[:10])
    assert len(trajectory.segments[0].token_ids) == 4 + used + 10
    assert trajectory.truncated
    assert len(engine.calls) == 2
    # A result that fills the budget to the last token leaves nothing to go on with either.
    engine = saying(*ROUND, completion("no"))
    trajectory, _ = await play(engine, max_tokens=used + len(BLOCK))
    assert trajectory.truncated
    engine = saying(*ROUND, completion("", eos=True))
    trajectory, _ = await play(engine, max_tokens=used + len(BLOCK) + 1)
    assert not trajectory.truncated


async def test_the_context_bounds_the_response_too():
    engine = saying(completion("x" * 6, eos=False))
    trajectory, _ = await play(engine, max_tokens=None, max_length=10)
    assert engine.calls[0].sampling.max_tokens == 6
    assert trajectory.truncated


async def test_a_code_stop_that_used_the_last_token_is_truncated():
    engine = saying(stopped(OPEN))
    trajectory, _ = await play(engine, max_tokens=len(OPEN))
    assert (trajectory.truncated, len(engine.calls)) == (True, 1)


async def test_an_action_cut_by_its_length_is_not_run():
    """It may look like a whole block: the engine says that it ended for length."""
    engine = saying(ROUND[0], completion("\nprint(1)\n```", eos=False, finish_reason="length"))
    trajectory, runner = await play(engine)
    assert (trajectory.truncated, runner.programs) == (True, [])


async def test_a_program_that_fails_is_told_and_counted():
    engine = saying(stopped(OPEN), stopped("\nbad\n```"), *ROUND, completion("?"))
    trajectory, runner = await play(engine, lambda code: CodeResult("NameError" * ("bad" in code), error="bad" in code))
    assert "```output\nNameError\n```" in texts(trajectory)[0]
    assert runner.programs == ["bad\n", "print(6*7)\n"]
    assert trajectory.outcome is None
    assert trajectory.facts == {
        "code_runs": 2,
        "code_errors": 1,
        "runner_down": 0,
        "last_failed": 0,
        "code_success_rate": 0.5,
    }


async def test_a_tool_that_is_out_of_order_is_not_the_policys_fault():
    def run(code: str) -> CodeResult:
        raise RunnerDown("nobody there")

    engine = saying(*ROUND, completion("It is 42."))
    trajectory, runner = await play(engine, run, code={"max_retries": 2})
    assert trajectory.outcome.status is Status.UNGRADED
    assert trajectory.outcome.reason == "a code block could not be run: nobody there"
    assert trajectory.facts["runner_down"] == 1
    assert texts(trajectory)[0].endswith("```output\nRunTime ERROR\n```\n\n\n")
    assert not trajectory.truncated
    assert runner.programs == ["print(6*7)\n"] * 2
    assert len(engine.calls) == 2  # there is nothing to be had from the rest of the episode


async def test_no_action_must_be_longer_than_it_may_be():
    engine = saying(*ROUND, completion("42"))
    await play(engine, sampling=SamplingParams(max_tokens=80, min_tokens=40))
    asked = [(call.sampling.min_tokens, call.sampling.max_tokens) for call in engine.calls]
    assert asked[0] == (40, 80)
    assert asked[2][0] == asked[2][1] < 40


async def test_merged_rounds_bring_back_what_had_no_error():
    results = {"a = 1\n": "", "oops\n": None}

    def run(code: str) -> CodeResult:
        return CodeResult("", error="oops" in code)

    actions = [action for code in (*results, "print(a)\n") for action in (stopped(OPEN), stopped(f"\n{code}```"))]
    _, runner = await play(saying(*actions, completion("1")), run, code={"rounds": 3, "merge_rounds": True})
    assert runner.programs == ["a = 1\n", "a = 1\n\noops\n", "a = 1\n\nprint(a)\n"]


async def test_an_aborted_or_late_generation_is_sampled_again_and_nothing_is_forgotten():
    """After a failure in the middle the episode goes on with its tokens, masks and counts."""
    aborted = completion("half", eos=False, finish_reason="aborted")
    engine = saying(*ROUND, aborted, TimeoutError(), completion("42"))
    trajectory, _ = await play(engine)
    everything, sampled = texts(trajectory)
    assert everything == f"6*7?I compute {OPEN}\nprint(6*7)\n```{BLOCK}42<eos>"
    assert "half" not in everything
    assert BLOCK not in sampled
    assert trajectory.facts["code_runs"] == 1
    assert engine.calls[2] == engine.calls[3] == engine.calls[4]


async def test_repeats_are_bounded_over_the_whole_episode():
    aborted = completion("", eos=False, finish_reason="aborted")
    engine = saying(*ROUND, aborted, aborted, aborted, aborted)
    with pytest.raises(NoGeneration, match="3 generations of one episode were aborted"):
        await play(engine, max_retries=2)
    assert len(engine.calls) == 5


async def test_a_dead_engine_is_not_asked_again():
    engine = saying(EngineDead("engine 0 is dead"))
    with pytest.raises(EngineDead):
        await play(engine)
    assert len(engine.calls) == 1


async def test_many_episodes_at_once_do_not_mix():
    def script(call: EngineCall) -> Completion:
        text = FakeTokenizer().decode(call.prompt_token_ids)
        name = text[0]
        if "output" in text:
            return completion(f"{name} ends")
        return stopped(f"\nprint('{name}')\n```") if OPEN in text else stopped(f"{name}{OPEN}")

    env = EnvConfig()
    runner = ScriptedRunner(lambda code: CodeResult(code.split("'")[1], error=False))
    executor = MathTirExecutor(env, CodeTool(env, runner, no_pause), no_pause)
    engine = ScriptedEngine(script)
    names = "abcdefghijklmnop"
    played = await asyncio.gather(
        *(executor.execute(name, "", SamplingParams(max_tokens=200), 300, FakeTokenizer(), engine) for name in names)
    )
    for name, trajectory in zip(names, played, strict=True):
        assert texts(trajectory)[0] == (
            f"{name}{name}{OPEN}\nprint('{name}')\n```\n```output\n{name}\n```\n\n\n{name} ends<eos>"
        )
    assert np.isclose(runner.most_at_once, env.code.max_concurrent)
