"""What images cannot be combined with is refused by name."""

import pytest

IMAGES = {"data.max_images_per_prompt": 1}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"algo.advantage.estimator": "gae"}, "--algo.advantage.estimator gae with --data.max_images_per_prompt 1"),
        ({"reward.remote_url": None, "reward.model_name_or_path": "./model"}, "--reward.model_name_or_path with"),
        (
            {"train.async_enable": True, "train.partial_rollout_enable": True},
            "--train.partial_rollout_enable with --data.max_images_per_prompt 1",
        ),
        ({"data.max_images_per_prompt": -1}, "--data.max_images_per_prompt -1: must be 0 or more"),
    ],
)
def test_refused(problems, changes, says):
    (line,) = problems(IMAGES | changes)
    assert line.startswith(says)


def test_a_frozen_encoder_lets_requests_go_on(resolved):
    partial = {"train.async_enable": True, "train.partial_rollout_enable": True}
    assert resolved(IMAGES | partial | {"actor.freeze_visual_encoder": True}).warnings == ()


def test_positions_of_a_model_with_two_parts(problems, workplace):
    (workplace / "model/config.json").write_text('{"text_config": {"max_position_embeddings": 100}}')
    (line,) = problems({"data.max_len": 200})
    assert line.startswith("--data.max_len 200: ./model knows 100 positions")
