"""Engine and trainer compute the same numbers for what the policy sees: one and two images, one turn and two, packed
and padded, before and after a sync. Each guard of that is taken away once, to see it fail.

fp32 on both sides. A test leaves engine and model in sync.
"""

import numpy as np
import pytest
import pytest_asyncio

from openrlhf.rollout.agent import AgentInstanceBase
from openrlhf.rollout.errors import EngineDead, GenerationError
from openrlhf.rollout.multi_turn import MultiTurnAgentExecutor
from openrlhf.rollout.single_turn import SingleTurnExecutor
from openrlhf.types import SamplingParams
from tests.pictures import picture
from tests.vision_models import TINY, chosen

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="session")]

EXACT, WRONG = 1e-4, 1e-2
RED, BLUE, WIDE = picture("red", 64, 64), picture("blue", 64, 64), picture("lime", 96, 48)
ONE_TURN = (("is <image> red?", (RED,)), ("<image> or <image>", (BLUE, WIDE)), ("no picture", ()))


class LookAgain(AgentInstanceBase):
    """Shows another picture after the first answer."""

    def __init__(self):
        self.turns = 0

    async def reset(self, states, **kwargs):
        return {"observation": states["observation"]}

    async def step(self, states, **kwargs):
        self.turns += 1
        feedback = {"environment_feedback": " and <image>?", "environment_images": [WIDE.decode()]}
        return {"rewards": 1.0, "done": self.turns == 2, **feedback}


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=chosen())
async def rig(request, vllm_environment, tmp_path_factory):
    from tests.integration.vision.rig import start_vision_rig

    rig = await start_vision_rig(TINY[request.param](tmp_path_factory.mktemp("vision") / request.param))
    yield rig
    rig.shutdown()


async def samples(rig):
    """One turn of each prompt, and two turns of the first two."""
    one = await rig.play(SingleTurnExecutor(), ONE_TURN)
    two = await rig.play(MultiTurnAgentExecutor(LookAgain), ONE_TURN[:2])
    assert [len(trajectory.segments[0].images) for trajectory in [*one, *two]] == [1, 2, 0, 2, 3]
    return [*one, *two]


async def test_one_and_two_images_one_turn_and_two_packed_and_padded_before_and_after_a_sync(rig):
    before = await samples(rig)
    assert rig.difference(before, "packed") < EXACT
    assert rig.difference(before, "padded") < EXACT
    rig.perturb(1)
    assert rig.difference(before) > WRONG
    await rig.sync()  # the same images again: nothing that the old weights made of them may serve
    after = await samples(rig)
    assert rig.difference(after, "packed") < EXACT
    assert rig.difference(after, "padded") < EXACT


async def test_trap_the_encoders_cache_goes_stale_where_it_is_kept(rig):
    await samples(rig)
    rig.perturb(2, ("model.vi", "model.connector"))
    rig.engine.keep_in_flight = True  # as partial rollouts sync: no cache is emptied
    await rig.sync()
    stale = rig.difference(await samples(rig))
    rig.engine.keep_in_flight = False
    await rig.sync()
    assert stale > WRONG
    assert rig.difference(await samples(rig)) < EXACT


async def test_trap_ids_that_are_not_folded_are_expanded_twice(rig, monkeypatch):
    vision = rig.engine.image_tokens
    monkeypatch.setattr(vision, "fold", lambda ids, images: list(ids))
    with pytest.raises(GenerationError, match=r"other than the .* that the model's processor makes"):
        await rig.play(SingleTurnExecutor(), ONE_TURN[:1])


async def test_trap_a_placeholder_may_not_be_sampled(rig, monkeypatch):
    # A bias of 20 makes it by far the likeliest token; the ban goes before.
    vision = rig.engine.image_tokens
    bias = dict.fromkeys(vision.banned_ids, 20.0)
    prompt = rig.tokenizer("abc", add_special_tokens=False)["input_ids"]
    params = SamplingParams(max_tokens=20, seed=0, logit_bias=bias)
    banned = await rig.engine.generate(prompt, params)
    assert not np.isin(banned.token_ids, vision.banned_ids).any()
    monkeypatch.setattr(vision, "banned_ids", ())
    free = await rig.engine.generate(prompt, params)
    assert np.isin(free.token_ids, list(bias)).any()


async def test_more_images_than_the_flag_says_are_refused(rig):
    with pytest.raises(ValueError, match=r"4 images in one prompt: over --data.max_images_per_prompt 3"):
        await rig.play(SingleTurnExecutor(), [("<image>" * 4, (RED, BLUE, RED, BLUE))])


async def test_with_a_frozen_encoder_the_language_model_alone_is_sent(rig):
    rig.perturb(3, rig.vision.processor.architecture.language)
    before = await samples(rig)
    assert rig.difference(before) > WRONG
    await rig.sync(language_only=True)
    assert rig.difference(await samples(rig)) < EXACT


async def test_a_transfer_without_the_encoder_that_does_not_say_so_ends_the_engine(rig):
    # The last test: the engine is dead after it.
    with pytest.raises(EngineDead, match=r"weight sync left .* parameters stale"):
        await rig.sync(language_only=True, declared=False)
