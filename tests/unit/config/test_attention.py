"""Which attention kernel a run gets."""

import pytest

from openrlhf.config.attention import Attention, choose_attention
from openrlhf.config.errors import ConfigError
from openrlhf.config.machine import Machine
from openrlhf.config.serve_rm import parse_serve_rm


@pytest.mark.parametrize(
    ("asked", "device", "has_flash", "kernel"),
    [
        (None, "cpu", True, "sdpa"),
        (None, "cuda", False, "sdpa"),
        (None, "cuda", True, "flash_attention_2"),
        ("eager", "cpu", False, "eager"),
        ("flash_attention_2", "cuda", True, "flash_attention_2"),
        ("flex_attention", "cuda", False, "flex_attention"),
        ("kernels-community/flash-attn3", "cuda", False, "kernels-community/flash-attn3"),
    ],
)
def test_a_kernel_that_the_device_has_is_taken(asked, device, has_flash, kernel):
    assert choose_attention(asked, device, has_flash) == Attention(kernel)


@pytest.mark.parametrize(
    ("asked", "device", "reason"),
    [
        ("flash_attention_2", "cpu", "flash attention needs a GPU"),
        ("kernels-community/vllm-flash-attn3", "cpu", "flash attention needs a GPU"),
        ("flash_attention_2", "cuda", "the package flash_attn is not installed"),
    ],
)
def test_flash_attention_that_is_not_there_is_sdpa_with_a_warning(asked, device, reason):
    chosen = choose_attention(asked, device, has_flash=False)
    assert chosen == Attention("sdpa", (f"--ds.attn_implementation {asked}: {reason}; using sdpa",))


@pytest.mark.parametrize(
    ("asked", "device", "reason"),
    [
        ("flex_attention", "cpu", "does not train on a CPU; use one of sdpa, eager"),
        ("sdpaa", "cpu", "no such kernel; use one of sdpa, eager"),
        ("sdpaa", "cuda", "no such kernel; use one of sdpa, eager, flash_attention_2"),
    ],
)
def test_other_kernels_are_refused(asked, device, reason):
    (problem,) = choose_attention(asked, device, has_flash=True).problems
    assert problem.startswith(f"--ds.attn_implementation {asked}: {reason}")


def test_the_reward_model_server_chooses_in_the_same_way():
    flags = ["--reward.model_name_or_path", "m", "--ds.attn_implementation"]
    config, warnings = parse_serve_rm([*flags, "flash_attention_2"], Machine())
    assert config.ds.attn_implementation == "sdpa"
    assert any("flash attention needs a GPU" in line for line in warnings)
    with pytest.raises(ConfigError, match="no such kernel"):
        parse_serve_rm([*flags, "sdpaa"], Machine())
