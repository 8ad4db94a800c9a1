"""The shift by one, and log-probabilities and entropies with their gradients."""

import math

import pytest
import torch

from openrlhf.rl.logprobs import (
    chunked_logprobs,
    entropy,
    gather_logprobs,
    logprobs_and_entropy,
    predictor_index,
    scatter_to_tokens,
)
from tests.unit.rl import reference

SEEDS = range(3)


def test_predictor_is_the_position_before_the_action():
    # Two sequences of 3 and 4 tokens; actions at 1, 2 and at 4, 6: predicted at 0, 1 and 3, 5.
    mask = torch.tensor([0, 1, 1, 0, 1, 0, 1], dtype=torch.bool)
    assert predictor_index(mask, torch.tensor([0, 3, 7])).tolist() == [0, 1, 3, 5]


def test_first_token_of_a_sequence_is_never_an_action():
    mask = torch.tensor([0, 1, 1], dtype=torch.bool)
    with pytest.raises(ValueError, match=r"sequence\(s\) \[1\]"):
        predictor_index(mask, torch.tensor([0, 2, 3]))


def test_scatter_puts_values_on_action_tokens_and_keeps_the_gradient():
    values = torch.tensor([2.0, 3.0], requires_grad=True)
    spread = scatter_to_tokens(values, torch.tensor([0, 1, 0, 1], dtype=torch.bool))
    assert spread.tolist() == [0.0, 2.0, 0.0, 3.0]
    (spread * torch.tensor([9.0, 5.0, 9.0, 7.0])).sum().backward()
    assert values.grad.tolist() == [5.0, 7.0]


def test_scatter_refuses_another_number_of_values():
    with pytest.raises(ValueError, match="3 values for 1 action"):
        scatter_to_tokens(torch.zeros(3), torch.tensor([0, 1], dtype=torch.bool))


def test_logprobs_by_hand():
    # Odds 1 : 3 -> p = 1/4 and 3/4. At temperature 0.5 the odds square, 1 : 9 -> p = 1/10 and 9/10.
    logits = torch.tensor([[0.0, math.log(3.0)], [0.0, math.log(3.0)]], dtype=torch.float64)
    ids = torch.tensor([0, 1])
    assert gather_logprobs(logits, ids).exp().tolist() == pytest.approx([0.25, 0.75])
    assert gather_logprobs(logits, ids, temperature=0.5).exp().tolist() == pytest.approx([0.1, 0.9])


def test_entropy_by_hand():
    # Uniform over 4: ln 4. A token that cannot happen adds nothing: uniform over 2 of 3 has ln 2.
    logits = torch.tensor([[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, -math.inf, -math.inf]], requires_grad=True)
    found = entropy(logits)
    assert found.tolist() == pytest.approx([math.log(4), math.log(2)])
    found.sum().backward()
    assert logits.grad.abs().max() < 1e-6  # both are at their maximum


def test_a_token_that_cannot_happen_is_not_made_possible_by_asking_for_the_entropy():
    # Case b1: such a token was sampled by an engine of other weights, and the loss has to show it.
    logits, ids = torch.tensor([[0.0, 0.0, -math.inf]]), torch.tensor([2])
    assert gather_logprobs(logits, ids).tolist() == [-math.inf]
    logprobs, entropies = logprobs_and_entropy(logits, ids)
    assert logprobs.tolist() == [-math.inf]
    assert entropies.tolist() == pytest.approx([math.log(2)])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_values_match_the_reference(seed, temperature):
    logits = 4 * torch.randn(7, 13, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    ids = torch.randint(13, (7,), generator=torch.Generator().manual_seed(seed))
    expected = [
        reference.log_softmax(row, temperature)[i] for row, i in zip(logits.tolist(), ids.tolist(), strict=True)
    ]
    expected_entropy = [reference.entropy(row, temperature) for row in logits.tolist()]
    assert gather_logprobs(logits, ids, temperature, chunk_size=3).tolist() == pytest.approx(expected, abs=1e-12)
    assert entropy(logits, temperature, chunk_size=3).tolist() == pytest.approx(expected_entropy, abs=1e-12)
    single = gather_logprobs(logits.float(), ids, temperature)
    assert single.dtype == torch.float32
    assert single.tolist() == pytest.approx(expected, abs=1e-5)


def _leaves(seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(10, 6, dtype=torch.float64, generator=generator)
    weight = torch.randn(17, 6, dtype=torch.float64, generator=generator)
    bias = torch.randn(17, dtype=torch.float64, generator=generator)
    ids = torch.randint(17, (10,), generator=generator)
    coefficients = torch.randn(2, 10, dtype=torch.float64, generator=generator)
    coefficients[0, ::3] = 0  # rows without a gradient are skipped
    coefficients[1, ::2] = 0
    leaves = [t.to(dtype).requires_grad_() for t in (hidden, weight, bias)]
    return leaves, ids, coefficients


def _autograd_scores(leaves, ids, temperature):
    """The same from torch's own differentiable pieces, in the leaves' dtype."""
    hidden, weight, bias = leaves
    log_p = torch.log_softmax((hidden @ weight.t() + bias) / temperature, dim=-1)
    return log_p.gather(1, ids.unsqueeze(1)).squeeze(1), -(log_p.exp() * log_p).sum(-1)


def _from_logits(leaves, ids, temperature):
    hidden, weight, bias = leaves
    return logprobs_and_entropy(hidden @ weight.t() + bias, ids, temperature, chunk_size=4)


def _from_hidden(leaves, ids, temperature):
    return chunked_logprobs(*leaves, ids, temperature, chunk_size=4, with_entropy=True)


@pytest.mark.parametrize("scores", [_from_logits, _from_hidden])
@pytest.mark.parametrize("use", ["logprobs", "entropy", "both"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-6)])
def test_gradients_match_float64_autograd(scores, use, temperature, dtype, tolerance):
    for seed in SEEDS:
        exact_leaves, ids, (on_logprob, on_entropy) = _leaves(seed, torch.float64)
        leaves, _, _ = _leaves(seed, dtype)
        for found_leaves, function in ((exact_leaves, _autograd_scores), (leaves, scores)):
            logprobs, entropies = function(found_leaves, ids, temperature)
            terms = {"logprobs": (logprobs * on_logprob).sum(), "entropy": (entropies * on_entropy).sum()}
            (terms[use] if use in terms else sum(terms.values())).backward()
        for exact, found in zip(exact_leaves, leaves, strict=True):
            assert (exact.grad - found.grad).norm() <= tolerance * exact.grad.norm()


def test_plain_path_without_entropy_and_without_bias():
    (hidden, weight, _), ids, (on_logprob, _) = _leaves(0, torch.float64)
    plain = gather_logprobs(hidden @ weight.t(), ids, 0.7, 4)
    plain_grads = torch.autograd.grad((plain * on_logprob).sum(), (hidden, weight))
    chunked, nothing = chunked_logprobs(hidden, weight, None, ids, 0.7, 4)
    chunked_grads = torch.autograd.grad((chunked * on_logprob).sum(), (hidden, weight))
    assert nothing is None
    torch.testing.assert_close(chunked, plain, rtol=0, atol=1e-13)
    torch.testing.assert_close(chunked_grads, plain_grads, rtol=0, atol=1e-12)


def test_bf16_softmax_runs_in_float32():
    """The only loss of precision is the logits' own rounding to bf16: the softmax of those is exact to float32."""
    leaves, ids, _ = _leaves(0, torch.bfloat16)
    hidden, weight, bias = leaves
    logits = torch.nn.functional.linear(hidden, weight, bias)
    exact = torch.log_softmax(logits.double(), -1).gather(1, ids.unsqueeze(1)).squeeze(1)
    logprobs, _ = chunked_logprobs(hidden, weight, bias, ids, chunk_size=4)
    assert logprobs.dtype == torch.float32
    assert (logprobs.double() - exact).abs().max() < 1e-5
    logprobs.sum().backward()
    assert [leaf.grad.dtype for leaf in leaves] == [torch.bfloat16] * 3
    exact_leaves, _, _ = _leaves(0, torch.float64)
    _autograd_scores(exact_leaves, ids, 1.0)[0].sum().backward()
    for exact_leaf, leaf in zip(exact_leaves, leaves, strict=True):
        assert (exact_leaf.grad - leaf.grad).norm() < 0.03 * exact_leaf.grad.norm()  # bf16 rounds at 2^-9 = 0.002


def test_autocast_runs_the_matmul_in_its_dtype():
    leaves, ids, _ = _leaves(0, torch.float32)
    hidden, weight, bias = leaves
    narrow = chunked_logprobs(hidden.bfloat16(), weight.bfloat16(), bias.bfloat16(), ids)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logprobs, _ = chunked_logprobs(hidden, weight, bias, ids)
    assert torch.equal(logprobs, narrow)
    logprobs.sum().backward()
    assert weight.grad.dtype == torch.float32


@pytest.mark.parametrize("with_entropy", [False, True])
def test_no_tokens_still_reach_every_parameter(with_entropy):
    """A filler micro-batch has no action: its backward pass must run and give zeros."""
    (hidden, weight, bias), ids, _ = _leaves(0, torch.float32)
    logprobs, entropies = chunked_logprobs(hidden[:0], weight, bias, ids[:0], with_entropy=with_entropy)
    scatter_to_tokens(logprobs, torch.zeros(2, dtype=torch.bool)).sum().backward()
    assert logprobs.shape == (0,)
    assert (entropies is not None) == with_entropy
    for leaf in (hidden, weight, bias):
        assert torch.equal(leaf.grad, torch.zeros_like(leaf))


def test_nan_logits_of_a_token_without_gradient_stay_out():
    logits = torch.tensor([[0.0, 0.0], [math.nan, 0.0]], requires_grad=True)
    logprobs = gather_logprobs(logits, torch.tensor([0, 0]))
    logprobs[:1].sum().backward()
    assert logits.grad.tolist() == [[0.5, -0.5], [0.0, 0.0]]
    logits.grad = None
    gather_logprobs(logits, torch.tensor([0, 0])).sum().backward()
    assert logits.grad[1].isnan().all()


def test_inputs_are_not_changed_by_scaling():
    """SPEC 1.4: dividing the logits by the temperature in place breaks autograd, and scales them twice."""
    logits = torch.randn(3, 5)
    before = logits.clone()
    logprobs_and_entropy(logits, torch.tensor([0, 1, 2]), temperature=0.5)
    assert torch.equal(logits, before)
