"""Images among tokens: each is processed once, however often its tokens are asked for; pixels are a trainer's."""

import numpy as np
import pytest

from openrlhf.images import ImageError
from openrlhf.models.errors import ModelError
from openrlhf.models.load import load_config
from openrlhf.models.vision import processor as module
from openrlhf.models.vision.architectures import ARCHITECTURES
from openrlhf.models.vision.inputs import VisionInputs
from openrlhf.models.vision.make import vision_inputs, vision_processor
from openrlhf.types import EncodedImage, MicroBatch, StepTotals
from tests.pictures import picture
from tests.vision_models import tiny_idefics3_config, tiny_idefics3_processor

PICTURES = [picture(colour, width) for colour in ("red", "blue", "lime", "white") for width in (30, 60)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model folder without weights; images are cut into tiles."""
    folder = tmp_path_factory.mktemp("vision")
    tiny_idefics3_config().save_pretrained(folder)
    tiny_idefics3_processor(tiles=True).save_pretrained(folder)
    return folder


class Counting:
    """A processor that counts the images it was given."""

    def __init__(self, processor):
        self.processor = processor
        self.calls = 0

    def __call__(self, **inputs):
        self.calls += len(inputs["images"])
        return self.processor(**inputs)


@pytest.fixture
def counted(folder):
    """count(vision) -> the counter that stands in its processor's place from here on."""

    def count(vision):
        vision.processor = Counting(vision.processor)
        return vision.processor

    return count


def test_tokens_are_made_once_though_the_pixels_are_not_kept(folder, counted):
    vision = vision_processor(str(folder), load_config(str(folder)), 8)
    counter = counted(vision)
    for _ in range(3):
        ids = vision.expand([vision.token_id, 9] * len(PICTURES), PICTURES)
        assert vision.fold(ids, PICTURES) == [vision.token_id, 9] * len(PICTURES)
    assert counter.calls == len(PICTURES)
    vision.tensors(PICTURES[:1])
    vision.tensors(PICTURES[:1])
    assert counter.calls == len(PICTURES) + 2  # nothing was kept, and nothing is


def test_a_trainer_keeps_pixels_up_to_a_number_of_bytes(folder, counted, monkeypatch):
    config = load_config(str(folder))
    (one,) = {
        sum(tensor.numel() * tensor.element_size() for tensor in made.values())
        for made in [vision_processor(str(folder), config, 8).tensors(PICTURES[:1])]
    }
    vision = vision_processor(str(folder), config, 8, pixel_bytes=2 * one)
    counter = counted(vision)
    red, blue, lime = PICTURES[0:6:2]
    for image in (red, blue, red, lime, red):  # lime pushes blue out, which was asked for longest ago
        vision.tensors([image])
    assert counter.calls == 3
    vision.tensors([blue])
    assert counter.calls == 4
    assert vision_inputs(str(folder), config, 8).processor._pixels._limit == module.PIXEL_BYTES


def test_images_of_one_size_share_their_tokens(folder):
    vision = vision_processor(str(folder), load_config(str(folder)), 8)
    assert vision.tokens(PICTURES[0]) is vision.tokens(PICTURES[2])
    assert vision.tokens(PICTURES[0]) != vision.tokens(PICTURES[1])


def test_the_number_of_known_images_is_bounded(folder, counted, monkeypatch):
    monkeypatch.setattr(module, "_KNOWN_IMAGES", 2)
    vision = vision_processor(str(folder), load_config(str(folder)), 8)
    counter = counted(vision)
    for image in (*PICTURES[:3], PICTURES[2], PICTURES[0]):  # the third pushes the first out
        vision.tokens(image)
    assert counter.calls == 4


def text_batch() -> MicroBatch:
    mask = np.array([False, True])
    return MicroBatch(
        token_ids=np.array([8, 9]),
        position_ids=np.array([0, 1]),
        cu_seqlens=np.array([0, 2], dtype=np.int32),
        action_mask=mask,
        loss_mask=mask,
        rollout_logprobs=np.zeros(2, dtype=np.float32),
        rows=np.array([0]),
        totals=StepTotals(1.0, 1.0),
    )


def test_a_blank_image_is_run_only_where_another_rank_may_have_one(folder):
    config = load_config(str(folder))
    text_only = vision_inputs(str(folder), config, 0, sharded=True, trained=True)
    assert text_only.with_encoder(text_batch()).images is None
    mixed = vision_inputs(str(folder), config, 1, sharded=True)
    assert [len(own) for own in mixed.with_encoder(text_batch()).images] == [0, 1]


def test_the_blank_image_has_few_tokens(folder):
    # The processor scales a long side up to two tiles of 32 pixels: 2 x 2 of a square, 2 x 1 of a long image, and an
    # overview each. A tile has 4 tokens of pixels.
    vision = VisionInputs(vision_processor(str(folder), load_config(str(folder)), 1), sharded=True)
    added = vision.with_encoder(text_batch()).token_ids[2:]
    assert (added == vision.processor.token_id).sum() == (2 * 1 + 1) * 4
    assert (np.array(vision.processor.tokens(picture(width=20))) == vision.processor.token_id).sum() == (2 * 2 + 1) * 4


@pytest.mark.parametrize(
    ("image", "says"),
    [
        (EncodedImage(b"broken"), "^an image: the model's processor refuses it: cannot identify image"),
        (EncodedImage(b"broken", "a.png"), "^a.png: the model's processor refuses it: cannot identify image"),
        (picture().decode(), "^an image of type Image; expected an EncodedImage, as read_image makes it$"),
        ("a.png", "^an image of type str; expected an EncodedImage"),
    ],
)
def test_what_an_executor_gives_as_an_image_is_looked_at(folder, image, says):
    vision = vision_processor(str(folder), load_config(str(folder)), 1)
    with pytest.raises(ImageError, match=says):
        vision.expand([vision.token_id], [image])
    with pytest.raises(ImageError, match=says):
        vision.fold([vision.token_id], [image])


@pytest.mark.parametrize("installed", [False, True])
def test_torchvision_is_named_only_where_it_is_missing(tmp_path, monkeypatch, installed):
    # The folder has no processor's files, which torchvision could not mend.
    monkeypatch.setattr(module, "find_spec", lambda name: object() if installed else None)
    with pytest.raises(ModelError, match="its processor cannot be loaded") as caught:
        module.load_processor(str(tmp_path), ARCHITECTURES["qwen2_5_vl"])
    assert ("it needs torchvision" in str(caught.value)) is not installed
