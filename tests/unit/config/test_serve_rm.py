"""The flags of the reward server."""

import pytest

from openrlhf.config.errors import ConfigError
from openrlhf.config.machine import Machine
from openrlhf.config.serve_rm import parse_serve_rm

CPU = Machine(num_gpus=0, cpu_has_bf16=False, packages=frozenset(), runs_ray=False)


def test_the_documented_flags_and_old_names() -> None:
    config, warnings = parse_serve_rm(
        ["--reward_pretrain", "a,b", "--reward.model_weights", "1", "0.5", "--data.max_len", "64", "--port", "5001",
         "--ds.no-packing_samples", "--batch_size", "4"],
        CPU,
    )  # fmt: skip
    assert (config.reward.models, config.reward.weights) == (("a", "b"), (1.0, 0.5))
    assert (config.data.max_len, config.port, config.host, config.batch_size) == (64, 5001, "0.0.0.0", 4)
    assert (config.ds.packing_samples, config.ds.param_dtype, config.device) == (False, "fp32", "cpu")
    assert len(warnings) == 1


def test_the_slow_tokenizer_is_no_more() -> None:
    line = ["--reward.model_name_or_path", "a", "--data.disable_fast_tokenizer"]
    _, (warning,) = parse_serve_rm(line, CPU)
    assert warning.startswith("--data.disable_fast_tokenizer has no effect: ")
    assert parse_serve_rm([*line, "False"], CPU)[1] == ()


def test_all_problems_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_serve_rm(["--port", "70000", "--batch_size", "0", "--ds.load_in_4bit", "--device", "cuda"], CPU)
    text = "\n".join(caught.value.problems)
    for flag in ("--reward.model_name_or_path is missing", "--port 70000", "--batch_size 0", "--ds.load_in_4bit",
                 "--device cuda"):  # fmt: skip
        assert flag in text


def test_a_flag_of_the_trainer_is_unknown_here() -> None:
    with pytest.raises(ConfigError, match="is no flag of serve_rm"):
        parse_serve_rm(["--reward.model_name_or_path", "a", "--actor.adam.lr", "1"], CPU)


def test_one_weight_per_model() -> None:
    with pytest.raises(ConfigError, match="2 weights for 1 models"):
        parse_serve_rm(["--reward.model_name_or_path", "a", "--reward.model_weights", "1", "2"], CPU)
