"""Which attention implementations a device takes."""

import pytest

from openrlhf.models.attention import check_attention, default_attention
from openrlhf.models.errors import ModelError


def test_a_cpu_gets_sdpa() -> None:
    assert default_attention("cpu") == "sdpa"


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_a_cpu_takes(implementation: str) -> None:
    check_attention(implementation, "cpu")


@pytest.mark.parametrize("implementation", ["flash_attention_2", "flex_attention"])
def test_a_cpu_refuses(implementation: str) -> None:
    with pytest.raises(ModelError, match=f"'{implementation}' does not train on a CPU; use one of sdpa, eager"):
        check_attention(implementation, "cpu")
