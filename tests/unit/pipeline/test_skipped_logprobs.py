"""A single optimiser step needs no logprob pass of its own: loss and gradient are the same to the last bit."""

import numpy as np
import pytest
import torch

from openrlhf.config.algo import AdvantageConfig, AlgoConfig, KlConfig
from openrlhf.config.model import ActorConfig
from openrlhf.pipeline.batching import MicroBatchLimit, dispatch
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.metrics import finalize
from openrlhf.train.forward import token_logprobs
from openrlhf.train.step import accumulate_gradient
from tests.batches import random_experience
from tests.fakes import TorchBackend
from tests.models import tiny_llama_config

LIMIT = MicroBatchLimit(2, None)


def model():
    from transformers import LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(tiny_llama_config(hidden_size=32, num_layers=1))


@pytest.mark.parametrize(
    ("actor", "corrected"),
    [({}, False), ({"dual_clip": 3.0}, True), ({"policy_loss_type": "gspo", "loss_aggregation": "sequence"}, True)],
)
def test_the_ratio_is_1_by_construction(actor, corrected):
    experience = random_experience([9, 7, 8], seed=1)
    algo = AlgoConfig(
        advantage=AdvantageConfig(is_correction_enable=corrected), kl=KlConfig(use_loss=True, estimator="k2")
    )
    objective = PolicyObjective.from_config(ActorConfig(**actor), algo, 16)
    gradients, metrics = [], []
    for computed in (True, False):
        backend = TorchBackend(model())
        if computed:
            scored = dispatch(experience, range(3), 1, LIMIT)
            answers = [token_logprobs(backend, own, layout="packed", temperature=0.7) for own in scored.batches]
            experience.old_logprobs = scored.collect(answers, experience)
        else:
            experience.old_logprobs = None
        (batches,) = dispatch(experience, range(3), 1, LIMIT).batches
        sums, own = accumulate_gradient(backend, batches, objective, kl_coef=0.1, layout="packed", temperature=0.7)
        if computed:
            np.testing.assert_array_equal(scored.collect([own], experience), experience.old_logprobs)
        gradients.append(backend.gradient())
        metrics.append(finalize(sums))
    assert torch.equal(*gradients)
    assert gradients[0].abs().max() > 0
    assert metrics[0] == metrics[1]
    assert np.isfinite(metrics[0]["train/policy_loss"])
    assert metrics[0]["train/ppo_kl"] == 0.0
