"""What the policy loss is made of."""

import pytest

from openrlhf.config.algo import AdvantageConfig, AlgoConfig, KlConfig
from openrlhf.config.model import ActorConfig
from openrlhf.rl.correction import Correction
from openrlhf.rl.losses.aggregation import Aggregation
from openrlhf.rl.losses.objective import PolicyObjective


def test_from_config():
    algo = AlgoConfig(kl=KlConfig(use_loss=True, estimator="k3"), advantage=AdvantageConfig(is_correction_enable=True))
    actor = ActorConfig(
        eps_clip=0.1, dual_clip=3.0, entropy_coef=0.0, loss_aggregation="sequence", policy_loss_type="gspo"
    )
    assert PolicyObjective.from_config(actor, algo, 512) == PolicyObjective(
        clip_low=0.1,
        clip_high=0.1,
        dual_clip=3.0,
        aggregation=Aggregation("sequence"),
        entropy_coef=0.0,
        kl_estimator="k3",
        kl_in_loss=True,
        correction=Correction("tis", 0.5, 5.0),
        loss_type="gspo",
    )
    asymmetric = PolicyObjective.from_config(ActorConfig(eps_clip_low_high=(0.2, 0.28)), AlgoConfig())
    assert (asymmetric.clip_low, asymmetric.clip_high, asymmetric.correction) == (0.2, 0.28, None)
    constant = PolicyObjective.from_config(ActorConfig(loss_aggregation="constant"), algo, 512)
    assert constant.aggregation == Aggregation("constant", 512)


@pytest.mark.parametrize(
    ("actor", "message"),
    [
        (
            {"policy_loss_type": "gspo"},
            "'gspo' has one ratio per sequence and needs aggregation 'sequence', not 'token'",
        ),
        ({"loss_aggregation": "constant"}, "'constant' needs a length of at least 1, got None"),
    ],
)
def test_parts_that_cannot_go_together(actor, message):
    with pytest.raises(ValueError, match=message):
        PolicyObjective.from_config(ActorConfig(**actor), AlgoConfig())
