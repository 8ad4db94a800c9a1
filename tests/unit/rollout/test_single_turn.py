import numpy as np
import pytest

from openrlhf.rollout.single_turn import SingleTurnExecutor, single_turn_segment
from openrlhf.types import Completion, SamplingParams, Turn
from tests.fakes import FAKE_EOS_ID, FakeImageTokens, FakeTokenizer, ScriptedEngine, completion
from tests.pictures import picture


async def run(engine: ScriptedEngine, *, prompt: str = "abc", max_length: int = 20, max_tokens: int | None = None):
    sampling = SamplingParams(max_tokens=max_tokens, temperature=0.7)
    return await SingleTurnExecutor().execute(prompt, "label", sampling, max_length, FakeTokenizer(), engine)


async def test_the_segment_is_prompt_then_completion():
    engine = ScriptedEngine(lambda call: completion("xy", version=3))
    trajectory = await run(engine)
    (segment,) = trajectory.segments
    assert segment.token_ids.tolist() == [97, 98, 99, 120, 121, FAKE_EOS_ID]
    assert segment.action_mask.tolist() == [False] * 3 + [True] * 3
    assert segment.loss_mask.tolist() == segment.action_mask.tolist()
    assert segment.logprobs.tolist() == [0.0, 0.0, 0.0, -0.5, -1.0, -1.5]
    assert segment.policy_versions.tolist() == [-1, -1, -1, 3, 3, 3]
    assert segment.turns == (Turn(3, 6),)
    assert trajectory.outcome is None
    assert not trajectory.truncated


async def test_case_a1_the_sampled_end_token_is_an_action_though_it_is_also_the_pad_token():
    # Prompt [1, 5, 2], response [6, 2], pad = eos = 2: two action tokens, and the prompt's own 2 is none.
    sampled = Completion(np.array([6, 2]), np.array([-1.0, -2.0], dtype=np.float32), "stop", np.zeros(2, np.int32))
    segment = single_turn_segment([1, 5, 2], sampled)
    assert segment.action_mask.tolist() == [False, False, False, True, True]
    assert segment.loss_mask.tolist() == [False, False, False, True, True]
    assert segment.num_actions == 2


async def test_the_engine_is_asked_for_what_the_budget_leaves():
    engine = ScriptedEngine(lambda call: completion("xy"))
    await run(engine, prompt="abcdef", max_length=8, max_tokens=4)
    (call,) = engine.calls
    assert call.prompt_token_ids == [ord(c) for c in "cdef"]  # the last 8 - 4, no special token in front
    assert call.sampling.max_tokens == 4
    assert call.sampling.temperature == 0.7


async def test_open_max_tokens_take_the_rest_of_the_context():
    engine = ScriptedEngine(lambda call: completion("xy"))
    await run(engine, prompt="abcdef", max_length=20)
    assert engine.calls[0].sampling.max_tokens == 14


@pytest.mark.parametrize(("finish_reason", "truncated"), [("stop", False), ("length", True)])
async def test_truncated_means_the_length_ended_it(finish_reason, truncated):
    # Even where the last token happens to be the end token, or is not.
    for eos in (True, False):
        engine = ScriptedEngine(lambda call, eos=eos: completion("xy", eos=eos, finish_reason=finish_reason))
        assert (await run(engine)).truncated is truncated


async def test_an_aborted_generation_has_no_verdict():
    engine = ScriptedEngine(lambda call: completion("x", eos=False, finish_reason="aborted"))
    trajectory = await run(engine)
    assert trajectory.outcome is not None
    assert trajectory.outcome.status == "ungraded"
    assert trajectory.segments[0].num_actions == 1


async def test_an_empty_completion_has_no_turn():
    engine = ScriptedEngine(lambda call: completion("", eos=False))
    (segment,) = (await run(engine)).segments
    assert segment.turns == ()
    assert segment.num_actions == 0


async def see(prompt: str, images: list, max_length: int = 20, vision: FakeImageTokens | None = None):
    engine = ScriptedEngine(lambda call: completion("x"), vision or FakeImageTokens())
    sampling = SamplingParams(max_tokens=4)
    trajectory = await SingleTurnExecutor().execute(
        prompt, "label", sampling, max_length, FakeTokenizer(), engine, images=images
    )
    return engine, trajectory


async def test_an_image_is_all_of_its_tokens_in_request_and_record():
    image = picture(width=40)
    engine, trajectory = await see("a#", [image])
    assert engine.calls[0].prompt_token_ids == [ord(c) for c in "a(####)"]
    assert engine.calls[0].images == (image,)
    (segment,) = trajectory.segments
    assert (segment.images, len(segment.token_ids)) == ((image,), 9)


async def test_a_prompt_with_images_is_never_cut():
    # 7 tokens beside 4 of the response: 11 are enough, 10 are not.
    await see("a#", [picture(width=40)], max_length=11)
    with pytest.raises(ValueError, match="a prompt with images has 7 tokens but only 6 fit"):
        await see("a#", [picture(width=40)], max_length=10)


async def test_as_many_placeholders_as_images():
    with pytest.raises(ValueError, match="1 placeholders for 2 images"):
        await see("a#", [picture(), picture()])
