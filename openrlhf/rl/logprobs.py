"""Log-probabilities and entropy of sampled tokens, and the shift by one, which lives here and nowhere else.

Index t describes token t, but a causal model's output at position t - 1 predicts token t. `predictor_index` makes
that step; the head then runs on the A predictor positions only, and `scatter_to_tokens` brings the (A,) results
back to the (N,) stream.

Two ways to score, same numbers and gradients:

- `gather_logprobs` / `logprobs_and_entropy` on logits (A, V) that exist anyway: fastest, needs room for the logits and
  their gradient;
- `chunked_logprobs` on hidden states: logits exist for `chunk_size` tokens at a time and are computed again in the
  backward pass. It reads the head's weight in both passes, so a partitioned weight (ZeRO-3) must be whole in both.

Softmax runs in float32 (float64 for float64 inputs), on logits divided by the rollout temperature out of place. Rows
whose incoming gradient is 0 are skipped in the backward pass: clipped tokens and zero advantages cost nothing, and a
NaN in the logits of a token that is not trained on stays out of the gradient.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable

CHUNK_SIZE = 512  # tokens whose float32 logits exist at once


def predictor_index(action_mask: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
    """Return (A,) int64: for each action token t of action_mask (N,), the position t - 1 that predicts it.

    Raises ValueError when the first token of a sequence is an action: the position before it is another sequence's.
    A padded (B, T) batch is the stream of B sequences of length T, cu_seqlens = [0, T, 2T, ...].
    """
    starts = cu_seqlens[:-1].long()
    if bool(action_mask[starts].any()):
        bad = action_mask[starts].nonzero().flatten().tolist()
        raise ValueError(f"predictor_index: the first token of sequence(s) {bad} is an action, nothing predicts it")
    return action_mask.nonzero().squeeze(-1) - 1


def scatter_to_tokens(values: torch.Tensor, action_mask: torch.Tensor) -> torch.Tensor:
    """Spread values (A,) over the stream: (N,), 0 off the action mask. Differentiable, also for A = 0."""
    where = action_mask.nonzero().squeeze(-1)
    if len(where) != len(values):
        raise ValueError(f"scatter_to_tokens: {len(values)} values for {len(where)} action tokens")
    return values.new_zeros(len(action_mask)).index_copy(0, where, values)


def gather_logprobs(
    logits: torch.Tensor, token_ids: torch.Tensor, temperature: float = 1.0, chunk_size: int = CHUNK_SIZE
) -> torch.Tensor:
    """Return (A,): log softmax(logits / temperature)[token], float32 (float64 for float64 logits).

    logits (A, V), row a predicts token_ids[a]. Beside the logits and their gradient, `chunk_size` rows are held.
    """
    return _LogitScores.apply(logits, token_ids, temperature, chunk_size, False)[0]


def logprobs_and_entropy(
    logits: torch.Tensor, token_ids: torch.Tensor, temperature: float = 1.0, chunk_size: int = CHUNK_SIZE
) -> tuple[torch.Tensor, torch.Tensor]:
    """Like `gather_logprobs`, and the entropy (A,) in nats of the same tempered distribution."""
    return _LogitScores.apply(logits, token_ids, temperature, chunk_size, True)


def entropy(logits: torch.Tensor, temperature: float = 1.0, chunk_size: int = CHUNK_SIZE) -> torch.Tensor:
    """Return (A,): H = -sum_v p_v log p_v in nats, p = softmax(logits / temperature); impossible tokens add 0."""
    any_token = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
    return _LogitScores.apply(logits, any_token, temperature, chunk_size, True)[1]


def chunked_logprobs(
    hidden: torch.Tensor,
    head_weight: torch.Tensor,
    head_bias: torch.Tensor | None,
    token_ids: torch.Tensor,
    temperature: float = 1.0,
    chunk_size: int = CHUNK_SIZE,
    with_entropy: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Score tokens from the hidden states of their predictor positions without ever holding (A, V) logits.

    hidden (A, D), head_weight (V, D), head_bias (V,) or None, token_ids (A,). Returns (logprobs (A,), entropy (A,) or
    None). The matmul runs in hidden's dtype, or in autocast's where that is on, as a Linear would; the softmax in
    float32 or better. The weight's gradient is summed over chunks in float32 or better and rounded once.
    """
    logprobs, entropies = _HeadScores.apply(
        hidden, head_weight, head_bias, token_ids, temperature, chunk_size, with_entropy
    )
    return logprobs, entropies


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _scaled(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    wide = logits.to(_wide(logits.dtype))
    return wide if temperature == 1.0 else wide / temperature


def _finite(log_p: torch.Tensor) -> torch.Tensor:
    """In place: -inf lifted to the lowest finite number, so that p log p of an impossible token is 0, not NaN."""
    return log_p.clamp_(min=torch.finfo(log_p.dtype).min)


def _score(
    scaled: torch.Tensor, token_ids: torch.Tensor, with_entropy: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the logprobs (C,) and, if asked, the entropy (C,) of a chunk of tempered logits (C, V)."""
    if not with_entropy:
        return -F.cross_entropy(scaled, token_ids, reduction="none"), None
    log_p = F.log_softmax(scaled, dim=-1)
    chosen = log_p.gather(1, token_ids.unsqueeze(1)).squeeze(1)  # -inf stays: an impossible token must be seen
    _finite(log_p)
    return chosen, -torch.einsum("cv,cv->c", log_p.exp(), log_p)


def _score_gradient(
    scaled: torch.Tensor,
    token_ids: torch.Tensor,
    grad_logprobs: torch.Tensor | None,
    grad_entropy: torch.Tensor | None,
    entropies: torch.Tensor | None,
) -> torch.Tensor:
    """Return d/d scaled (C, V), in a fresh tensor.

    d logp_a / dz_v = [v = a] - p_v and dH / dz_v = -p_v (log p_v + H).
    """
    if grad_entropy is None or entropies is None:
        assert grad_logprobs is not None
        gradient = F.softmax(scaled, dim=-1).mul_(-grad_logprobs.unsqueeze(1))
    else:
        log_p = _finite(F.log_softmax(scaled, dim=-1))
        factor = (log_p + entropies.unsqueeze(1)).mul_(grad_entropy.unsqueeze(1))
        if grad_logprobs is not None:
            factor.add_(grad_logprobs.unsqueeze(1))
        gradient = log_p.exp_().mul_(factor).neg_()
    if grad_logprobs is not None:
        gradient.scatter_add_(1, token_ids.unsqueeze(1), grad_logprobs.unsqueeze(1))
    return gradient


def _active_rows(grad_logprobs: torch.Tensor | None, grad_entropy: torch.Tensor | None) -> torch.Tensor:
    """Return the rows with a gradient to pass on; NaN differs from 0, so a broken gradient is passed on too."""
    active = [grad != 0 for grad in (grad_logprobs, grad_entropy) if grad is not None]
    return torch.stack(active).any(dim=0).nonzero().squeeze(-1)


def _rows(values: torch.Tensor | None, rows: torch.Tensor) -> torch.Tensor | None:
    return None if values is None else values[rows]


class _LogitScores(torch.autograd.Function):
    """(logits, ids) -> (logprobs, entropy or None), float32 math on a few rows at a time."""

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, token_ids: torch.Tensor, temperature: float, chunk_size: int, with_entropy: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        logprobs = logits.new_empty(len(logits), dtype=_wide(logits.dtype))
        entropies = torch.empty_like(logprobs) if with_entropy else None
        for start in range(0, len(logits), chunk_size):
            part = slice(start, start + chunk_size)
            found, spread = _score(_scaled(logits[part], temperature), token_ids[part], with_entropy)
            logprobs[part] = found
            if entropies is not None and spread is not None:
                entropies[part] = spread
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(logits, token_ids, entropies)
        ctx.temperature, ctx.chunk_size = temperature, chunk_size
        return logprobs, entropies

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_logprobs: torch.Tensor | None, grad_entropy: torch.Tensor | None = None) -> Any:
        if grad_logprobs is None and grad_entropy is None:
            return (None,) * 5
        logits, token_ids, entropies = ctx.saved_tensors
        gradient = torch.zeros_like(logits)
        for rows in _active_rows(grad_logprobs, grad_entropy).split(ctx.chunk_size):
            part = _score_gradient(
                _scaled(logits[rows], ctx.temperature),
                token_ids[rows],
                _rows(grad_logprobs, rows),
                _rows(grad_entropy, rows),
                _rows(entropies, rows),
            )
            gradient[rows] = part.div_(ctx.temperature).to(logits.dtype)
        return gradient, None, None, None, None


def _matmul_dtype(hidden: torch.Tensor) -> torch.dtype:
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype


class _HeadScores(torch.autograd.Function):
    """(hidden, weight, bias, ids) -> (logprobs, entropy or None), with the logits of one chunk alive at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        token_ids: torch.Tensor,
        temperature: float,
        chunk_size: int,
        with_entropy: bool,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        dtype = _matmul_dtype(hidden)
        logprobs = hidden.new_empty(len(hidden), dtype=_wide(dtype))
        entropies = torch.empty_like(logprobs) if with_entropy else None
        narrow_hidden, narrow_weight = hidden.to(dtype), weight.to(dtype)
        narrow_bias = None if bias is None else bias.to(dtype)
        for start in range(0, len(hidden), chunk_size):
            part = slice(start, start + chunk_size)
            scaled = _scaled(F.linear(narrow_hidden[part], narrow_weight, narrow_bias), temperature)
            found, spread = _score(scaled, token_ids[part], with_entropy)
            logprobs[part] = found
            if entropies is not None and spread is not None:
                entropies[part] = spread
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(hidden, weight, bias, token_ids, entropies)
        ctx.temperature, ctx.chunk_size, ctx.dtype = temperature, chunk_size, dtype
        return logprobs, entropies

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_logprobs: torch.Tensor | None, grad_entropy: torch.Tensor | None = None) -> Any:
        if grad_logprobs is None and grad_entropy is None:
            return (None,) * 7
        hidden, weight, bias, token_ids, entropies = ctx.saved_tensors
        narrow_weight = weight.to(ctx.dtype)
        narrow_bias = None if bias is None else bias.to(ctx.dtype)
        grad_hidden = torch.zeros_like(hidden)
        grad_weight = torch.zeros_like(weight, dtype=_wide(weight.dtype)) if ctx.needs_input_grad[1] else None
        grad_bias = torch.zeros_like(bias, dtype=_wide(bias.dtype)) if ctx.needs_input_grad[2] else None
        for rows in _active_rows(grad_logprobs, grad_entropy).split(ctx.chunk_size):
            inputs = hidden[rows].to(ctx.dtype)
            part = _score_gradient(
                _scaled(F.linear(inputs, narrow_weight, narrow_bias), ctx.temperature),
                token_ids[rows],
                _rows(grad_logprobs, rows),
                _rows(grad_entropy, rows),
                _rows(entropies, rows),
            )
            if ctx.temperature != 1.0:
                part.div_(ctx.temperature)
            if grad_bias is not None:
                grad_bias += part.sum(0)
            part = part.to(ctx.dtype)
            grad_hidden[rows] = (part @ narrow_weight).to(hidden.dtype)
            if grad_weight is not None:
                _add_product(grad_weight, part, inputs)
        return (
            grad_hidden,
            None if grad_weight is None else grad_weight.to(weight.dtype),
            None if grad_bias is None else grad_bias.to(bias.dtype),
            *(None,) * 4,
        )


def _add_product(total: torch.Tensor, part: torch.Tensor, inputs: torch.Tensor) -> None:
    """total (V, D) += part (C, V)^T inputs (C, D), without a temporary where the dtypes agree."""
    if total.dtype == part.dtype:
        total.addmm_(part.t(), inputs)
    else:
        total += part.t() @ inputs
