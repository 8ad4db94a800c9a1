"""Tiny vision-language models through the training forward pass: layouts, images, bans, micro-batches without images.

The reference is transformers' own forward pass over one sequence at a time.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from openrlhf.config.train import DsConfig
from openrlhf.models.layout_choice import choose_layout
from openrlhf.models.load import load_causal_lm
from openrlhf.models.vision.freeze import freeze_vision
from openrlhf.models.vision.inputs import VisionInputs
from openrlhf.models.vision.make import vision_inputs
from openrlhf.rl.packing import filler
from openrlhf.train.forward import score_tokens
from openrlhf.types import MicroBatch
from tests.fakes import TorchBackend
from tests.pictures import picture
from tests.vision_batches import Sample, micro_batches
from tests.vision_models import TINY, chosen

RED, BLUE, WIDE = picture("red"), picture("blue"), picture("lime", 60, 20)
PARTS = {  # of the model: trained, frozen
    "idefics3": ({"text_model"}, {"vision_model", "connector"}),
    "qwen2_5_vl": ({"language_model"}, {"visual"}),
    "qwen3_vl": ({"language_model"}, {"visual"}),
}
SAMPLES: tuple[Sample, ...] = (
    ("is <image> red?", (RED,), "yes"),
    ("<image> or <image>", (BLUE, WIDE), "both"),
    ("no picture", (), "none"),
)


@pytest.fixture(scope="module", params=chosen())
def folder(request, tmp_path_factory):
    return TINY[request.param](tmp_path_factory.mktemp("vision") / request.param)


@pytest.fixture(scope="module")
def backend(folder):
    return TorchBackend(load_causal_lm(str(folder), torch.float32, "sdpa"))


@pytest.fixture(scope="module")
def vision(folder, backend) -> VisionInputs:
    made = vision_inputs(str(folder), backend.model.config, max_images=4, trained=True)
    assert made is not None
    return made


def batch_of(vision: VisionInputs, *samples) -> MicroBatch:
    (batch,) = micro_batches(vision, samples, [range(len(samples))])
    return batch


def alone(backend, vision: VisionInputs, sample: Sample) -> torch.Tensor:
    """Reference: entry t is log p(token t | tokens before) of one sequence, 0 off the response. The processor makes all
    inputs from the whole text, the model its own positions."""
    text, images, response = sample
    processor = vision.processor.processor
    pictures = [[image.decode() for image in images]] if images else None
    made = processor(text=[vision.processor.mark(text)], images=pictures, add_special_tokens=False, return_tensors="pt")
    answer = torch.tensor([processor.tokenizer(response, add_special_tokens=False)["input_ids"]])
    prompt, _ = made.pop("input_ids"), made.pop("attention_mask")
    if "mm_token_type_ids" in made:
        made["mm_token_type_ids"] = torch.cat([made["mm_token_type_ids"], torch.zeros_like(answer)], dim=1)
    ids = torch.cat([prompt, answer], dim=1)
    logits = backend.model(input_ids=ids, use_cache=False, **made).logits[0]
    logits[:, list(vision.banned_ids)] = -torch.inf
    found = torch.zeros(ids.shape[1])
    found[1:] = logits[:-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
    found[: prompt.shape[1]] = 0.0
    return found


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_each_sequence_is_scored_as_if_alone(layout, backend, vision):
    batch = batch_of(vision, *SAMPLES)
    with torch.no_grad():
        found = score_tokens(backend, batch, layout=layout, temperature=1.0, vision=vision).logprobs
        expected = torch.cat([alone(backend, vision, sample) for sample in SAMPLES])
        # The comparison sees the pictures: with others in their place the numbers are far away.
        swapped = [("is <image> red?", (BLUE,), "yes"), ("<image> or <image>", (RED, WIDE), "both"), SAMPLES[2]]
        other = torch.cat([alone(backend, vision, sample) for sample in swapped])
    assert (found - expected).abs().max() < 1e-5
    assert (other - expected).abs().max() > 1e-2


def test_the_order_of_images_matters(backend, vision):
    # Both have the same shape, so the tokens are equal and nothing else could notice a swap.
    (one, two) = [("<image> or <image>", images, "both") for images in ((RED, BLUE), (BLUE, RED))]
    batches = [batch_of(vision, sample) for sample in (one, two)]
    assert np.array_equal(batches[0].token_ids, batches[1].token_ids)
    with torch.no_grad():
        found = [
            score_tokens(backend, batch, layout="packed", temperature=1.0, vision=vision).logprobs for batch in batches
        ]
        assert (found[0] - alone(backend, vision, one)).abs().max() < 1e-5
    assert (found[0] - found[1]).abs().max() > 1e-3


def test_tokens_that_are_not_those_of_the_images_are_refused(backend, vision):
    # WIDE has fewer tiles than RED: tokens of the one with pixels of the other would shift every later image.
    batch = batch_of(vision, SAMPLES[0])
    wrong = replace(batch, images=((WIDE,),))
    with pytest.raises(ValueError, match=r"row 0: image 1 of 1 .*its tokens are not where they belong"):
        score_tokens(backend, wrong, layout="packed", temperature=1.0, vision=vision)
    without = replace(batch, images=None)
    with pytest.raises(ValueError, match="more image tokens than those of the 0 images"):
        score_tokens(backend, without, layout="packed", temperature=1.0, vision=vision)


def test_banned_tokens_have_no_probability(backend, vision):
    # Made likely, the image token would take most of the mass somewhere: the others' logprobs must not notice. Its
    # row of the head is tried with both signs, since a logit may be negative.
    batch = batch_of(vision, SAMPLES[2])
    row = backend.model.get_output_embeddings().weight[vision.processor.token_id]
    unbanned = []
    with torch.no_grad():
        kept = row.clone()
        before = score_tokens(backend, batch, layout="packed", temperature=0.7, vision=vision, with_entropy=True)
        for factor in (50, -50):
            row.copy_(factor * kept)
            after = score_tokens(backend, batch, layout="packed", temperature=0.7, vision=vision, with_entropy=True)
            assert torch.equal(before.logprobs, after.logprobs)
            assert torch.equal(before.entropy, after.entropy)
            unbanned.append(score_tokens(backend, batch, layout="padded", temperature=0.7).logprobs - after.logprobs)
        row.copy_(kept)
    assert torch.stack(unbanned).abs().max() > 0.5


@pytest.mark.parametrize("layout", ["packed", "padded"])
@pytest.mark.parametrize("kind", ["text", "filler"])
def test_a_micro_batch_without_images_gives_the_encoder_a_gradient_of_zero(layout, kind, backend, vision):
    # On several ranks a parameter without a gradient would be missing in a collective: the others wait for ever.
    batch = batch_of(vision, SAMPLES[2])
    text = batch if kind == "text" else filler(batch.totals)
    backend.model.zero_grad()
    scores = score_tokens(backend, text, layout=layout, temperature=1.0, vision=vision)
    scores.logprobs.sum().backward()
    gradients = dict(backend.model.named_parameters())
    assert [name for name, parameter in gradients.items() if parameter.grad is None] == []
    language = vision.processor.architecture.language
    vision_part = [p.grad for name, p in gradients.items() if not name.startswith(language)]
    assert len(vision_part) > 10
    assert all((gradient == 0).all() for gradient in vision_part)
    if kind == "text":
        with torch.no_grad():
            assert (scores.logprobs - alone(backend, vision, SAMPLES[2])).abs().max() < 1e-5


def test_images_give_the_encoder_a_gradient(backend, vision):
    backend.model.zero_grad()
    score_tokens(
        backend, batch_of(vision, SAMPLES[0]), layout="packed", temperature=1.0, vision=vision
    ).logprobs.sum().backward()
    language = vision.processor.architecture.language
    for name, parameter in backend.model.named_parameters():
        if not name.startswith(language) and name.endswith("proj.weight"):
            assert parameter.grad.abs().max() > 0, name


def test_frozen_means_everything_but_the_language_model(folder, vision):
    model = load_causal_lm(str(folder), torch.float32, "sdpa")
    freeze_vision(model, vision.processor.architecture)
    trained = {name.split(".")[1] for name, p in model.named_parameters() if p.requires_grad}
    frozen = {name.split(".")[1] for name, p in model.named_parameters() if not p.requires_grad}
    assert (trained, frozen) == PARTS[model.config.model_type]


def test_samples_of_a_prompt_share_its_pictures_and_no_others_do(backend, vision):
    # RED and BLUE have equal tokens: sharing by tokens alone would show one of them to both. Three samples of a prompt
    # run its picture once.
    words = ("yes", "no", "who knows")
    samples = [("is <image> red?", (image,), word) for image in (RED, BLUE) for word in words]
    batch = batch_of(vision, *samples, SAMPLES[1], SAMPLES[2])
    backend.calls.clear()
    with torch.no_grad():
        found = score_tokens(backend, batch, layout="shared", temperature=1.0, vision=vision).logprobs
        expected = torch.cat([alone(backend, vision, sample) for sample in (*samples, SAMPLES[1], SAMPLES[2])])
    assert (found - expected).abs().max() < 1e-5
    (call,) = backend.calls
    shown = vision.processor.tensors([RED, BLUE, *SAMPLES[1][1]])
    assert call["pixel_values"].shape == shown["pixel_values"].shape
    assert call["input_ids"].shape[1] < len(batch.token_ids)


def test_pictures_behind_an_action_are_not_shared(backend, vision):
    # Two turns: another picture follows the first answer, so it belongs to no prompt. The middle of the response is
    # the environment's.
    samples = [("is <image> red?", (RED,), word) for word in ("yes", "no")]
    batch = batch_of(vision, *((f"{text}{word} look <image>", (RED, BLUE), "again") for text, _, word in samples))
    starts = batch.cu_seqlens[:-1]
    prompt = len(vision.processor.processor.tokenizer("is ", add_special_tokens=False)["input_ids"])
    prompt += len(vision.processor.tokens(RED)) + 6
    batch.action_mask[starts + prompt + 1] = True  # a letter of the first answer
    assert not vision.in_prompts(batch)
    with torch.no_grad():
        found = {
            layout: score_tokens(backend, batch, layout=layout, temperature=1.0, vision=vision).logprobs
            for layout in ("shared", "padded")
        }
    assert (found["shared"] - found["padded"]).abs().max() < 1e-5


def test_sharing_is_asked_for_where_it_can_be(backend):
    assert choose_layout(DsConfig(), backend) == "shared"
    assert choose_layout(DsConfig(share_prompts=False), backend) == "packed"
    assert choose_layout(DsConfig(packing_samples=False), backend) == "padded"
