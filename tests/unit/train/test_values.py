"""The critic's values and their loss: the same for any micro-batch size, packed or padded (DESIGN rule 2, case b2)."""

import numpy as np
import pytest
import torch
from transformers import LlamaForSequenceClassification

from openrlhf.models.value import TokenValues
from openrlhf.rl.losses.aggregation import Aggregation
from openrlhf.rl.losses.value_loss import value_loss
from openrlhf.rl.metrics import finalize
from openrlhf.rl.packing import filler
from openrlhf.train.critic import value_streams
from openrlhf.train.forward import token_values
from openrlhf.train.step import add_up
from tests.batches import micro_batches, random_experience
from tests.fakes import TorchBackend
from tests.models import tiny_llama_config

LENGTHS = (9, 21, 5, 14, 11, 6)
PROMPTS = (0, 1, 0, 0, 1, 2)
LAYOUTS = ("shared", "packed", "padded")
CUTS = {
    "all at once": [[0, 1, 2, 3, 4, 5]],
    "one row each": [[0], [1], [2], [3], [4], [5]],
    "uneven, with fillers": [[4, 0], [], [1, 5, 2], [3]],
}


def backend(attention: str = "sdpa") -> TorchBackend:
    config = tiny_llama_config(hidden_size=64)
    config.num_labels, config.initializer_range = 1, 0.1
    torch.manual_seed(0)
    model = LlamaForSequenceClassification._from_config(config, attn_implementation=attention)
    return TorchBackend(model, TokenValues(model))


def experience():
    batch = random_experience(LENGTHS, prompts=PROMPTS)
    rng = np.random.default_rng(1)
    batch.values, batch.returns = (rng.normal(size=batch.sequences.shape).astype(np.float32) for _ in range(2))
    return batch


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_value_is_the_head_s_word_on_the_state_before_the_token(layout: str, attention: str) -> None:
    critic, batch = backend(attention), experience()
    (packed,) = micro_batches(batch, [list(range(6))])
    with torch.no_grad():
        found = token_values(critic, packed, layout).numpy()
        expected = []
        for row, length in enumerate(LENGTHS):
            hidden = critic.model.base_model(torch.from_numpy(batch.sequences[row, :length])[None])
            values = critic.model.score(hidden.last_hidden_state)[0, :, 0].numpy()
            # V(s_t) is read where token t - 1 was the last one seen; the first token has no state before it.
            shifted = np.concatenate([[0.0], values[:-1]])
            expected.append(np.where(batch.action_mask[row, :length], shifted, 0.0))
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-4)
    assert np.ptp(found) > 0.1


def fit(cuts: list[list[int]], layout: str, aggregation: Aggregation):
    critic = backend()

    def loss_of(batch):
        streams = value_streams(batch, token_values(critic, batch, layout))
        return value_loss(streams, batch.totals, 0.5, aggregation)

    metrics = add_up(critic, micro_batches(experience(), cuts), loss_of)
    return critic.gradient().double(), finalize(metrics)


@pytest.mark.parametrize("aggregation", [Aggregation("token"), Aggregation("sequence")], ids=["token", "sequence"])
def test_gradient_and_metrics_do_not_depend_on_the_layout(aggregation) -> None:
    expected, expected_metrics = fit(CUTS["all at once"], "padded", aggregation)
    assert expected.norm() > 1e-3
    for (name, cuts), layout in zip(CUTS.items(), LAYOUTS, strict=True):
        found, metrics = fit(cuts, layout, aggregation)
        assert (found - expected).norm() < 1e-4 * expected.norm(), (name, layout)
        assert metrics == pytest.approx(expected_metrics, rel=1e-4, abs=1e-6), (name, layout)


def test_a_filler_alone_has_zero_gradients_everywhere() -> None:
    critic = backend()
    (batch,) = micro_batches(experience(), [[0]])
    empty = filler(batch.totals)
    add_up(critic, [empty], lambda b: value_loss(value_streams(b, token_values(critic, b, "packed")), b.totals, 0.5))
    assert not critic.gradient().any()  # and no parameter is without one: the collectives of a rank must all run


def test_a_micro_batch_without_returns_is_refused() -> None:
    (batch,) = micro_batches(random_experience((6,)), [[0]])
    with pytest.raises(ValueError, match="without values and returns"):
        value_streams(batch, torch.zeros(6))
