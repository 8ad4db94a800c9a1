"""Token ids in, token ids and the logprobs they were sampled with out."""

import asyncio
import multiprocessing
import os
import signal

import numpy as np
import pytest
import torch

from openrlhf.rollout.errors import EngineDead, GenerationError
from openrlhf.sync.shm import SharedMemorySender
from openrlhf.types import Completion, SamplingParams
from tests.models import EOS_ID, make_tiny_tokenizer

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("temperature", [1.0, 0.5])
async def test_logprobs_are_those_of_the_sampled_distribution(tied_rig, temperature):
    completions = await tied_rig.samples(temperature=temperature)
    assert tied_rig.difference(completions, temperature=temperature) < 3e-4
    assert tied_rig.difference(completions, temperature=2 * temperature) > 3e-3


async def test_greedy_takes_the_most_likely_token(tied_rig):
    # Temperature 0 reports the unscaled model's logprobs.
    completions = await tied_rig.samples(temperature=0.0)
    assert tied_rig.difference(completions) < 3e-4
    again = await tied_rig.samples(temperature=0.0)
    assert all(np.array_equal(a.token_ids, b.token_ids) for a, b in zip(completions, again, strict=True))


async def test_the_end_of_sequence_token_is_part_of_the_completion(tied_rig):
    # One of ~128 tokens ends a sequence at random, so among 16 samples of up to 100 tokens about half stop.
    prompts = [[10, 20, 30]] * 16
    completions = await tied_rig.samples(prompts, max_tokens=100)
    stopped = [completion for completion in completions if completion.finish_reason == "stop"]
    assert stopped
    for completion in completions:
        assert (completion.finish_reason == "stop") == (completion.token_ids[-1] == EOS_ID)
        assert EOS_ID not in completion.token_ids[:-1]
        assert completion.finish_reason == "stop" or len(completion.token_ids) == 100


async def test_a_stop_string_ends_the_completion(tied_rig):
    completions = await tied_rig.samples(stop=("e", "3"), max_tokens=200)
    tokenizer = make_tiny_tokenizer()
    for completion in completions:
        text = tokenizer.decode(completion.token_ids)
        assert (completion.finish_reason == "stop") == text.endswith(("e", "3", "</s>")), text
        assert not set(text[:-1].removesuffix("</s")) & {"e", "3"}
        assert len(completion.logprobs) == len(completion.token_ids)
    assert any(completion.token_ids[-1] != EOS_ID for completion in completions if completion.finish_reason == "stop")
    assert tied_rig.difference(completions) < 3e-4


async def test_requests_with_seeds_whose_prompts_fill_several_steps(tied_rig):
    # 30 prompts of 400 tokens are more than one step takes (4,096): none may be cut, for its seed's sake.
    prompts = [[10 + i] * 400 for i in range(30)]
    completions = await tied_rig.samples(prompts, max_tokens=2)
    assert tied_rig.difference(completions, prompts) < 3e-4


async def test_tokens_are_counted(tied_rig):
    before = tied_rig.engine.stats()
    completions = await tied_rig.samples()
    after = tied_rig.engine.stats()
    assert after.requests - before.requests == len(completions)
    assert after.tokens_generated - before.tokens_generated == sum(len(c.token_ids) for c in completions)
    assert after.busy_seconds > before.busy_seconds
    assert after.in_flight == 0


async def held_step(engine, order: list[int]) -> list[Completion]:
    """One step of 24 requests, asked for in the given order, answered in the order of their seeds."""
    engine.hold()
    asked = {
        seed: asyncio.create_task(
            engine.generate([10, 20, 30 + seed % 4], SamplingParams(max_tokens=32, temperature=1.0, seed=seed))
        )
        for seed in order
    }
    await engine.release(expected=len(order))
    return [await asked[seed] for seed in sorted(order)]


def assert_identical(left: list[Completion], right: list[Completion]) -> None:
    for a, b in zip(left, right, strict=True):
        assert np.array_equal(a.token_ids, b.token_ids)
        assert np.array_equal(a.logprobs, b.logprobs)  # bit for bit


async def test_held_requests_repeat_bit_for_bit_here_and_in_another_process(tied_rig, tmp_path):
    from tests.integration.vllm_rig import start_rig

    shuffle = np.random.default_rng(0).permutation
    first = await held_step(tied_rig.engine, list(range(24)))
    await tied_rig.sync()  # empties the prefix cache; the weights stay
    again = await held_step(tied_rig.engine, [int(i) for i in shuffle(24)])
    assert_identical(first, again)
    assert len({completion.token_ids.tobytes() for completion in first}) == 24

    tied_rig.model.save_pretrained(tmp_path / "model")
    make_tiny_tokenizer().save_pretrained(tmp_path / "model")
    earlier = set(multiprocessing.active_children())
    other = await start_rig(tmp_path / "model", SharedMemorySender(torch.float32))
    processes = set(multiprocessing.active_children()) - earlier
    elsewhere = await held_step(other.engine, [int(i) for i in shuffle(24)])
    assert_identical(first, elsewhere)
    await assert_a_killed_engine_says_so(other.engine, [process.pid for process in processes])


async def assert_a_killed_engine_says_so(engine, pids: list[int]) -> None:
    """Its core process is killed under a request in flight; the request fails at once instead of hanging."""
    request = asyncio.create_task(engine.generate([10, 20, 30], SamplingParams(max_tokens=400, min_tokens=400, seed=0)))
    await asyncio.sleep(0)  # it is on its way; wherever the death meets it, it has to be told
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(EngineDead, match="vLLM engine 0 is dead: its process died"):
        await asyncio.wait_for(request, 30)
    with pytest.raises(EngineDead):
        await engine.generate([10], SamplingParams(max_tokens=1))
    engine.shutdown()


def request_output(logprobs, finish_reason="stop"):
    from vllm.outputs import CompletionOutput, RequestOutput, WeightVersionSpan

    versions = [WeightVersionSpan("3", 0, 1), WeightVersionSpan("4", 1, 2)]
    sampled = CompletionOutput(0, "", [7, 8], None, logprobs, finish_reason=finish_reason, weight_versions=versions)
    return RequestOutput("r1", None, [5], None, [sampled], finished=True)


async def test_a_completion_without_logprobs_is_an_error(vllm_environment):
    from vllm.logprobs import FlatLogprobs

    from openrlhf.rollout.vllm.requests import to_completion

    good = FlatLogprobs([0, 1], [1, 2], [7, 8], [-0.5, -1.0], [1, 1], [None, None])
    completion = to_completion(request_output(good), "engine")
    assert completion.logprobs.tolist() == [-0.5, -1.0]
    assert completion.policy_versions.tolist() == [3, 4]
    short = FlatLogprobs([0], [1], [7], [-0.5], [1], [None])
    other = FlatLogprobs([0, 1], [1, 2], [7, 9], [-0.5, -1.0], [1, 1], [None, None])
    infinite = FlatLogprobs([0, 1], [1, 2], [7, 8], [-0.5, float("-inf")], [1, 1], [None, None])
    for logprobs, message in (
        (None, "engine: request r1: 2 tokens but None logprobs"),
        (short, "2 tokens but 1 logprobs"),
        (other, "belong to other tokens"),
        (infinite, "no finite logprob"),
    ):
        with pytest.raises(GenerationError, match=message):
            to_completion(request_output(logprobs), "engine")
    with pytest.raises(GenerationError, match="ended with 'error'"):
        to_completion(request_output(good, "error"), "engine")


async def test_open_max_tokens_are_refused(tied_rig):
    with pytest.raises(ValueError, match="max_tokens is None"):
        await tied_rig.engine.generate([5, 6], SamplingParams())
