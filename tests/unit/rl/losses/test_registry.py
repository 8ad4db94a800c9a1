"""Policy losses by name."""

from typing import get_args

import pytest

from openrlhf.config.model import PolicyLossType
from openrlhf.rl.losses.registry import POLICY_LOSSES, policy_loss_kind


def test_every_value_of_the_flag_is_there():
    assert tuple(POLICY_LOSSES) == get_args(PolicyLossType)
    assert [kind.weighted for kind in POLICY_LOSSES.values()] == [True, False, True]


def test_unknown_name_lists_what_exists():
    with pytest.raises(ValueError, match="unknown policy loss 'dpo', one of ppo, gspo, cispo"):
        policy_loss_kind("dpo")
