"""A vision-language model on one and two DeepSpeed ranks, where the second sees no picture: same gradient, no hang."""

import pytest
from transformers import AutoModelForImageTextToText, AutoProcessor

from tests.integration.ranks import run
from tests.integration.vision.train_worker import CUTS, STAGES
from tests.vision_models import make_tiny_idefics3

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

VISION = ("model.vision_model.", "model.connector.")


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> tuple[dict, dict, object]:
    folder = tmp_path_factory.mktemp("ranks")
    model = make_tiny_idefics3(folder / "model", tiles=True)
    results = []
    for world_size in (1, 2):
        (folder / str(world_size)).mkdir()
        results.append(run("step", world_size, model, folder / str(world_size), "vision.train_worker"))
    return (*results, folder / "2" / "export")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", CUTS)
def test_two_ranks_make_the_step_of_one(found, stage, frozen, name):
    one, two, _ = (part[f"step {name} {stage} {frozen}"] if isinstance(part, dict) else part for part in found)
    assert one["grad_norm"] == pytest.approx(two["grad_norm"], rel=1e-4)
    assert one["grad_norm"] > 1e-3


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("world", [0, 1])
def test_a_frozen_encoder_keeps_its_bits_and_everything_else_moves(found, stage, world):
    whole, frozen = (found[world][f"step mixed {stage} {kind}"] for kind in (False, True))
    # A weight that no gradient reaches does not move either: positions and tokens that the samples lack do not count,
    # they are rows of weights that move elsewhere.
    assert [name for name, moved in whole["moved"].items() if moved == 0] == []
    still = {name for name, moved in frozen["moved"].items() if moved == 0}
    assert still == {name for name in frozen["moved"] if name.startswith(VISION)}
    assert set(frozen["synced"]) == set(frozen["moved"]) - still
    assert set(whole["synced"]) == set(whole["moved"])


def test_the_exported_folder_has_model_and_processor(found):
    model = AutoModelForImageTextToText.from_pretrained(found[2])
    processor = AutoProcessor.from_pretrained(found[2])
    assert type(processor).__name__ == "Idefics3Processor"
    assert processor.chat_template
    assert model.config.image_token_id == processor.image_token_id
