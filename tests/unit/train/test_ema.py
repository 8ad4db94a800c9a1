"""The moving average of weights."""

import pytest
import torch

from openrlhf.train.ema import WeightAverage


def test_it_moves_by_one_minus_beta_of_the_way() -> None:
    weight = torch.tensor([1.0, 2.0])
    average = WeightAverage(0.75, [("w", weight)])
    weight.copy_(torch.tensor([5.0, 2.0]))
    average.update([("w", weight)])
    # 0.75 * 1 + 0.25 * 5 = 2; then 0.75 * 2 + 0.25 * 5 = 2.75
    assert dict(average.slices())["w"].tolist() == [2.0, 2.0]
    average.update([("w", weight)])
    assert dict(average.slices())["w"].tolist() == [2.75, 2.0]


def test_small_steps_of_bf16_weights_add_up() -> None:
    weight = torch.tensor([1.0], dtype=torch.bfloat16)
    average = WeightAverage(0.999, [("w", weight)])
    weight.fill_(2.0)
    for _ in range(10):
        average.update([("w", weight)])
    # 2 - 0.999^10 = 1.00996; in bf16 every step of 0.001 beside 1 would be rounded away
    assert dict(average.slices())["w"].item() == pytest.approx(2 - 0.999**10, rel=1e-6)


def test_the_state_comes_back_and_another_model_s_is_refused() -> None:
    first = WeightAverage(0.5, [("w", torch.tensor([1.0, 3.0]))])
    second = WeightAverage(0.5, [("w", torch.tensor([0.0, 0.0]))])
    second.load_state_dict(first.state_dict())
    assert dict(second.slices())["w"].tolist() == [1.0, 3.0]
    with pytest.raises(ValueError, match="another number of processes"):
        WeightAverage(0.5, [("w", torch.zeros(1))]).load_state_dict(first.state_dict())
