"""Which DeepSpeed stage and clipping our flags become."""

import pytest

from openrlhf.config.train import DsConfig
from openrlhf.train.deepspeed.config import training_config


def built(muon: bool = False, **ds) -> dict:
    return training_config(DsConfig(**ds), 1.0, 2, "cpu", muon)


@pytest.mark.parametrize(
    ("ds", "muon", "stage"),
    [
        ({"zero_stage": 0, "param_dtype": "fp32"}, False, 0),
        ({"zero_stage": 0, "param_dtype": "bf16"}, False, 1),  # only ZeRO sums 16-bit gradients in fp32
        ({"zero_stage": 0, "param_dtype": "bf16", "grad_accum_dtype": "bf16"}, False, 0),
        ({"zero_stage": 3, "param_dtype": "bf16"}, False, 3),
        ({"zero_stage": 1, "param_dtype": "bf16", "enable_sleep": True}, False, 2),
        ({"zero_stage": 3, "param_dtype": "bf16", "enable_sleep": True}, False, 3),
        ({"zero_stage": 0, "param_dtype": "fp32"}, True, 1),
        ({"zero_stage": 2, "param_dtype": "fp32"}, True, 2),
        ({"zero_stage": 2, "param_dtype": "bf16"}, True, 1),  # where Muon's momentum is fp32
    ],
)
def test_the_stage_that_runs(ds, muon, stage) -> None:
    assert built(muon, **ds)["zero_optimization"]["stage"] == stage


def test_muon_is_not_clipped() -> None:
    assert built(False, param_dtype="fp32")["gradient_clipping"] == 1.0
    assert built(True, param_dtype="fp32")["gradient_clipping"] == 0.0


def test_muon_s_states_in_16_bits_cannot_sleep() -> None:
    with pytest.raises(ValueError, match=r"--ds.enable_sleep: DeepSpeed cannot move Muon"):
        built(True, param_dtype="bf16", enable_sleep=True)


def test_gradients_are_summed_in_the_format_asked_for() -> None:
    assert built(param_dtype="bf16")["data_types"] == {"grad_accum_dtype": "fp32"}
    assert built(param_dtype="bf16", grad_accum_dtype="bf16")["data_types"] == {"grad_accum_dtype": "bf16"}
