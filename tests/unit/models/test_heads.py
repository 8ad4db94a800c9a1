"""Which models can be split over the processes of an engine."""

import pytest
from transformers import LlamaConfig, MambaConfig

from openrlhf.models.errors import ModelError
from openrlhf.models.heads import check_heads


def model(heads: int, shared: int) -> LlamaConfig:
    return LlamaConfig(num_attention_heads=heads, num_key_value_heads=shared, hidden_size=32 * heads)


@pytest.mark.parametrize(
    ("heads", "shared", "parts"),
    [(4, 2, 1), (4, 2, 2), (9, 3, 1), (9, 3, 3), (8, 2, 4), (8, 1, 4)],  # the last two share heads of keys and values
)
def test_heads_that_divide_pass(heads, shared, parts):
    check_heads("m", model(heads, shared), parts)


@pytest.mark.parametrize(
    ("heads", "shared", "parts", "says"),
    [(9, 3, 2, "its 9 attention heads"), (4, 2, 3, "its 4 attention heads"), (6, 3, 2, "its 3 key-value heads")],
)
def test_heads_that_do_not_are_one_line_with_the_flag(heads, shared, parts, says):
    with pytest.raises(ModelError) as error:
        check_heads("m", model(heads, shared), parts)
    assert str(error.value) == f"model 'm': {says} cannot be split over --vllm.tensor_parallel_size {parts} processes"


def test_a_model_that_does_not_tell_is_left_to_the_engine():
    check_heads("m", MambaConfig(), 2)
