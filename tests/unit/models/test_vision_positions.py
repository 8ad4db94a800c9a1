"""Positions on a grid against transformers' own, and by hand."""

import numpy as np
import pytest

from openrlhf.models.vision.positions import grid_positions

IMAGE = 9


def test_by_hand():
    # Two words, an image of 2 x 3 tokens that begins at position 2, and two words that go on at 2 + 3 = 5.
    ids = np.array([1, 2, *[IMAGE] * 6, 3, 4])
    assert grid_positions(ids, IMAGE, [(2, 3)]).tolist() == [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        [0, 1, 2, 2, 2, 2, 2, 2, 5, 6],
        [0, 1, 2, 2, 2, 3, 3, 3, 5, 6],
        [0, 1, 2, 3, 4, 2, 3, 4, 5, 6],
    ]


def test_text_counts_in_every_row():
    assert grid_positions(np.array([1, 2, 3]), IMAGE, []).tolist() == [[0, 1, 2]] * 4


def test_as_transformers_does():
    torch = pytest.importorskip("torch")
    from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLConfig
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel

    grids = [(2, 3), (4, 1), (2, 2)]
    ids = [1, 2]
    for rows, columns in grids:
        ids += [*[IMAGE] * (rows * columns), 3, 4, 5]
    tokens = torch.tensor([ids])

    class Shell:
        config = Qwen2_5_VLConfig()
        get_vision_position_ids = Qwen2_5_VLModel.get_vision_position_ids

    merge = Shell.config.vision_config.spatial_merge_size
    found, _ = Qwen2_5_VLModel.get_rope_index(
        Shell(),
        tokens,
        mm_token_type_ids=(tokens == IMAGE).int(),
        image_grid_thw=torch.tensor([[1, rows * merge, columns * merge] for rows, columns in grids]),
        attention_mask=torch.ones_like(tokens),
    )
    assert np.array_equal(grid_positions(np.array(ids), IMAGE, grids)[1:], found[:, 0].numpy())


@pytest.mark.parametrize(
    ("ids", "grids"),
    [([1, IMAGE, IMAGE], [(1, 3)]), ([1, IMAGE, 2, IMAGE], [(1, 2)]), ([1, IMAGE, IMAGE], [(1, 1)]), ([1], [(1, 1)])],
)
def test_image_tokens_must_be_those_of_the_grids(ids, grids):
    with pytest.raises(ValueError, match="image"):
        grid_positions(np.array(ids), IMAGE, grids)
