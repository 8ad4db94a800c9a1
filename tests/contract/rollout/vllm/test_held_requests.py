"""Held requests keep images as their files."""

import asyncio

import pytest

from openrlhf.config.rollout import VllmConfig
from openrlhf.rollout.vllm.args import VllmEngineArgs
from openrlhf.types import EncodedImage, SamplingParams
from tests.fakes import FakeImageTokens
from tests.pictures import picture


class KnownTokens(FakeImageTokens):
    """Looks at no pixels, as the real one that has seen an image before."""

    @staticmethod
    def _tokens(image):
        return "(###)"


class Core:
    """In the place of AsyncLLM: notes the prompts and starts none."""

    def __init__(self):
        self.prompts = []

    async def pause_generation(self, **_):
        pass

    async def resume_generation(self):
        pass

    async def add_request(self, request_id, prompt, params):
        self.prompts.append(prompt)
        raise ValueError("noted")


async def test_held_requests_decode_nothing_and_share_one_picture_when_they_start(monkeypatch):
    from openrlhf.rollout.vllm.engine import VllmEngine  # vLLM's import reads the environment: not at collection

    decoded, decode = [], EncodedImage.decode
    vision = KnownTokens()
    monkeypatch.setattr(EncodedImage, "decode", lambda each: decoded.append(each) or decode(each))
    image = picture()
    ids = vision.expand([ord("a"), ord("#")], [image])
    engine = VllmEngine(VllmEngineArgs("model", VllmConfig(dtype="fp32"), "cpu", 64, image_tokens=vision))
    engine._llm = core = Core()
    engine.hold()
    asked = [
        asyncio.create_task(engine.generate(ids, SamplingParams(max_tokens=1, seed=seed), [image])) for seed in range(8)
    ]
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(engine._held) == 8
    assert decoded == []
    await engine.release(expected=8)
    for task in asked:
        with pytest.raises(ValueError, match="noted"):
            await task
    assert len(core.prompts) == 8
    assert len({id(prompt["multi_modal_data"]["image"][0]) for prompt in core.prompts}) == 1
    assert decoded == [image]
