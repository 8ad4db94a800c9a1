"""What may differ between a checkpoint and the run that resumes from it."""

import pytest

from openrlhf.config.ppo import PPOConfig
from openrlhf.pipeline.checkpoint_store import CheckpointError
from openrlhf.pipeline.same_run import compare


def config(**sections: dict) -> PPOConfig:
    return PPOConfig.model_validate({"actor": {"model_name_or_path": "m"}} | sections)


def test_the_same_run_has_nothing_to_say():
    assert compare(config(), config(), "checkpoint 3") == []


def test_where_things_are_written_and_how_long_it_runs_may_change():
    now = config(ckpt={"save_steps": 7}, train={"max_steps": 9}, logger={"logging_steps": 2})
    assert compare(config(), now, "checkpoint 3") == []


def test_another_setting_is_named_with_both_values():
    (warning,) = compare(config(), config(rollout={"batch_size": 8}), "checkpoint 3")
    assert "--rollout.batch_size 8 (it was 1024)" in warning
    assert "checkpoint 3" in warning


def test_all_that_cannot_change_is_named_at_once():
    now = config(actor={"model_name_or_path": "other"}, ds={"zero_stage": 3})
    with pytest.raises(CheckpointError) as caught:
        compare(config(), now, "checkpoint 3")
    assert "--actor.model_name_or_path other (it was m)" in str(caught.value)
    assert "--ds.zero_stage 3 (it was 2)" in str(caught.value)


def test_fixed_and_free_flags_exist():
    from openrlhf.config.schema import flags
    from openrlhf.pipeline.same_run import _FIXED, _FREE

    known = set(flags())
    assert set(_FIXED) <= known
    assert all(any(flag.startswith(prefix) for flag in known) for prefix in _FREE)
