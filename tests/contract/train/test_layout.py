"""The same losses and gradients for any micro-batch size, packed or padded (DESIGN rule 2, case b2)."""

from functools import partial

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from openrlhf.rl.losses.aggregation import Aggregation
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.metrics import finalize
from openrlhf.rl.packing import filler
from openrlhf.train.forward import score_tokens, token_logprobs
from openrlhf.train.step import accumulate_gradient
from tests.batches import micro_batches, random_experience
from tests.fakes import TorchBackend
from tests.models import tiny_llama_config

LENGTHS = (9, 21, 5, 14, 11, 6)
PROMPTS = (0, 1, 0, 0, 1, 2)  # rows 0, 2, 3 are samples of one prompt, rows 1 and 4 of another
LAYOUTS = ("shared", "packed", "padded")
CUTS = {
    "all at once": [[0, 1, 2, 3, 4, 5]],
    "one row each": [[0], [1], [2], [3], [4], [5]],
    "uneven": [[4, 0], [1, 5, 2], [3]],
    "with fillers": [[0, 1, 2], [], [3, 4, 5], []],
}


def backend(dtype: torch.dtype = torch.float64, attention: str = "sdpa") -> TorchBackend:
    config = tiny_llama_config()
    config.initializer_range = 0.1
    torch.manual_seed(0)
    model = LlamaForCausalLM._from_config(config, attn_implementation=attention).to(dtype)
    if dtype is torch.float64:
        for module in model.modules():
            if isinstance(module, LlamaRMSNorm):
                module.forward = partial(exact_norm, module)  # transformers' own rounds to float32
    return TorchBackend(model)


def exact_norm(norm: LlamaRMSNorm, hidden: torch.Tensor) -> torch.Tensor:
    return norm.weight * hidden * torch.rsqrt(hidden.square().mean(-1, keepdim=True) + norm.variance_epsilon)


def separate_logprobs(model: LlamaForCausalLM, experience, row: int, temperature: float) -> torch.Tensor:
    """Reference: one row alone, the whole head, plain log_softmax; entry t is about token t."""
    length = int(experience.attention_mask[row].sum())
    ids = torch.from_numpy(experience.sequences[row, :length])
    logits = model(input_ids=ids[None], use_cache=False).logits[0] / temperature
    found = torch.zeros(length, dtype=logits.dtype)
    found[1:] = logits[:-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0]
    return found.where(torch.from_numpy(experience.action_mask[row, :length]), 0.0)


# The eager kernel takes the probabilities in float32, whatever the model's dtype is.
@pytest.mark.parametrize(
    ("attention", "dtype", "tolerance"),
    [("sdpa", torch.float32, 1e-4), ("sdpa", torch.float64, 1e-9), ("eager", torch.float32, 1e-4)],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_sequence_is_scored_as_if_alone(layout, attention, dtype, tolerance) -> None:
    engine, experience = backend(dtype, attention), random_experience(LENGTHS, prompts=PROMPTS)
    (batch,) = micro_batches(experience, [[0, 1, 2, 3, 4, 5]])
    with torch.no_grad():
        scores = score_tokens(engine, batch, layout=layout, temperature=0.7)
        expected = torch.cat([separate_logprobs(engine.model, experience, row, 0.7) for row in range(6)])
    assert (scores.logprobs - expected).abs().max() < tolerance
    assert expected.abs().max() > 1  # the comparison is about something


def test_entropy_is_that_of_the_tempered_distribution() -> None:
    engine, experience = backend(), random_experience((8,))
    (batch,) = micro_batches(experience, [[0]])
    with torch.no_grad():
        entropy = score_tokens(engine, batch, layout="packed", temperature=0.5, with_entropy=True).entropy
        logits = engine.model(torch.from_numpy(batch.token_ids)[None], use_cache=False).logits[0] / 0.5
    assert entropy is not None
    expected = torch.distributions.Categorical(logits=logits).entropy()
    assert torch.allclose(entropy[[3, 5, 6, 7]], expected[[2, 4, 5, 6]], atol=1e-12)  # t is predicted at t - 1
    assert entropy[[0, 1, 2, 4]].tolist() == [0, 0, 0, 0]


def gradient(
    cuts: list[list[int]],
    layout: str,
    objective: PolicyObjective,
    dtype: torch.dtype = torch.float64,
    attention: str = "sdpa",
):
    engine = backend(dtype, attention)
    batches = micro_batches(random_experience(LENGTHS, prompts=PROMPTS), cuts)
    metrics, _ = accumulate_gradient(engine, batches, objective, kl_coef=0.1, layout=layout, temperature=0.9)
    assert engine.last_marks == [False] * (len(cuts) - 1) + [True]
    return engine.gradient(), finalize(metrics)


OBJECTIVES = {
    "token": PolicyObjective(entropy_coef=0.01, kl_in_loss=True, kl_estimator="k3"),
    "sequence": PolicyObjective(
        aggregation=Aggregation("sequence"), entropy_coef=0.0, kl_in_loss=True, kl_estimator="k2"
    ),
}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-9)])
@pytest.mark.parametrize("aggregation", OBJECTIVES)
def test_gradient_and_metrics_do_not_depend_on_the_layout(aggregation, dtype, tolerance) -> None:
    objective = OBJECTIVES[aggregation]
    expected, expected_metrics = gradient(CUTS["all at once"], "padded", objective, dtype)
    for name, cuts in CUTS.items():
        for layout in LAYOUTS:
            found, metrics = gradient(cuts, layout, objective, dtype)
            assert (found - expected).norm() < tolerance * expected.norm(), (name, layout)
            assert metrics == pytest.approx(expected_metrics, rel=1e-4, abs=1e-6), (name, layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_eager_kernel_gives_the_gradient_of_sdpa(layout: str) -> None:
    cuts = CUTS["all at once"]
    expected, _ = gradient(cuts, "padded", OBJECTIVES["token"], torch.float32)
    found, _ = gradient(cuts, layout, OBJECTIVES["token"], torch.float32, "eager")
    assert (found - expected).norm() < 1e-5 * expected.norm()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_head_runs_on_predictor_positions_only(layout: str) -> None:
    engine = backend()
    (batch,) = micro_batches(random_experience((6, 6), prompts=(0, 0)), [[0, 1]])
    score_tokens(engine, batch, layout=layout, temperature=1.0)
    # Actions are tokens 3 and 5 of each row: predicted at 2 and 4, and at 8 and 10 of the packed row; a shared row is
    # the prompt 0 1 2, then 3 4 5 of the first row and 6 7 8 of the second.
    expected = {"shared": [2, 4, 2, 7], "packed": [2, 4, 8, 10], "padded": [2, 4]}
    assert engine.calls[0]["logits_to_keep"].tolist() == expected[layout]
    assert engine.calls[0]["input_ids"].numel() == (9 if layout == "shared" else 12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_filler_alone_has_zero_gradients_everywhere(layout: str) -> None:
    engine = backend(torch.bfloat16)
    (batch,) = micro_batches(random_experience((6,)), [[0]])
    accumulate_gradient(
        engine, [filler(batch.totals)], OBJECTIVES["token"], kl_coef=0.1, layout=layout, temperature=1.0
    )
    assert not engine.gradient().any()  # and no parameter is without one: the collectives of a rank must all run


def test_a_nan_at_a_trained_token_stops_the_step_and_elsewhere_does_nothing() -> None:
    experience = random_experience((6, 7))
    clean = accumulate(experience)
    experience.advantages[0, 5] = np.nan  # the loss-masked action of row 0
    experience.rollout_logprobs[1, 4] = np.nan  # an environment token
    assert torch.equal(accumulate(experience), clean)
    experience.advantages[1, 6] = np.nan
    with pytest.raises(FloatingPointError, match="micro-batch 1 of 1"):
        accumulate(experience)


def accumulate(experience) -> torch.Tensor:
    engine = backend()
    batches = micro_batches(experience, [[0, 1]])
    accumulate_gradient(engine, batches, OBJECTIVES["token"], kl_coef=0.1, layout="packed", temperature=1.0)
    return engine.gradient()


def test_training_without_advantages_or_batches_is_refused() -> None:
    experience = random_experience((6,))
    experience.advantages = None
    with pytest.raises(ValueError, match="without advantages"):
        accumulate_one(micro_batches(experience, [[0]]))
    with pytest.raises(ValueError, match="at least one micro-batch"):
        accumulate_one([])


def accumulate_one(batches) -> None:
    accumulate_gradient(backend(), batches, PolicyObjective(), kl_coef=0.0, layout="packed", temperature=1.0)


def test_token_logprobs_are_plain_float32_arrays() -> None:
    (found,) = token_logprobs(
        backend(), micro_batches(random_experience((6,)), [[0]]), layout="packed", temperature=1.0
    )
    assert found.dtype == np.float32
    assert (found != 0).tolist() == [False, False, False, True, False, True]
