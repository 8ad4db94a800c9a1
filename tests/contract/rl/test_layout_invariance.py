"""The loss, its gradient and its metrics do not depend on the layout (DESIGN rule 2).

A tiny causal transformer is trained for one step on the same rollouts in many layouts: micro-batches of 1, 2 and all
rows, token budgets, 1 to 3 simulated ranks (some idle at times), packed and padded, logits whole and in chunks.
"""

import numpy as np
import pytest
import torch
from torch import nn

from openrlhf.config.algo import AdvantageConfig, KlConfig
from openrlhf.rl.advantages.compute import compute_advantages
from openrlhf.rl.correction import Correction
from openrlhf.rl.logprobs import chunked_logprobs, logprobs_and_entropy, predictor_index, scatter_to_tokens
from openrlhf.rl.losses.aggregation import Aggregation
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.losses.policy_loss import policy_loss
from openrlhf.rl.losses.tokens import LossStreams
from openrlhf.rl.metrics import finalize, merge
from openrlhf.rl.packing import collate, pack, plan_micro_batches, step_totals
from openrlhf.rl.streams import sequence_index
from tests.unit.rl.samples import random_groups

VOCAB, WIDTH, TEMPERATURE, KL_COEF = 11, 8, 0.8, 0.05
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}


class TinyModel(nn.Module):
    """Embedding, one causal attention, and a head tied to the embedding."""

    def __init__(self, dtype):
        super().__init__()
        generator = torch.Generator().manual_seed(0)

        def weight(*shape):
            return nn.Parameter(torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype) * 0.5)

        self.embedding, self.position = weight(VOCAB, WIDTH), weight(16, WIDTH)
        self.attention = nn.ParameterList([weight(WIDTH, WIDTH) for _ in range(4)])
        self.bias = weight(VOCAB)

    def hidden(self, token_ids, position_ids, allowed):
        """token_ids, position_ids (..., N), allowed (..., N, N): who may look at whom. Returns (..., N, WIDTH)."""
        x = self.embedding[token_ids] + self.position[position_ids]
        query, key, value = (x @ weight for weight in self.attention[:3])
        attention = (query @ key.transpose(-1, -2) / WIDTH**0.5).masked_fill(~allowed, -torch.inf).softmax(-1)
        return torch.tanh(x + attention @ value @ self.attention[3])


def packed_hidden(model, batch):
    """One stream; a token sees only its own sequence."""
    ids, positions, cu = map(torch.from_numpy, (batch.token_ids, batch.position_ids, batch.cu_seqlens))
    sequence = sequence_index(cu, len(ids))
    causal = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
    return model.hidden(ids, positions, causal & (sequence[:, None] == sequence[None, :]))


def padded_hidden(model, batch):
    """(S, T) with padding on the right, and the real tokens taken out afterwards."""
    lengths = np.diff(batch.cu_seqlens)
    real = torch.from_numpy(np.arange(lengths.max())[None, :] < lengths[:, None])
    ids = torch.full(real.shape, 3)
    ids[real] = torch.from_numpy(batch.token_ids)
    positions = torch.arange(real.shape[1]).expand_as(ids)
    causal = torch.ones(real.shape[1], real.shape[1], dtype=torch.bool).tril()
    return model.hidden(ids, positions, causal)[real]


def whole_scores(model, hidden, token_ids):
    return logprobs_and_entropy(hidden @ model.embedding.t() + model.bias, token_ids, TEMPERATURE)


def chunked_scores(model, hidden, token_ids):
    return chunked_logprobs(hidden, model.embedding, model.bias, token_ids, TEMPERATURE, 5, with_entropy=True)


def share(model, batch, objective, hidden_of, scores_of):
    """The part of the loss that one micro-batch carries."""
    action_mask = torch.from_numpy(batch.action_mask)
    cu_seqlens = torch.from_numpy(batch.cu_seqlens)
    hidden = hidden_of(model, batch)[predictor_index(action_mask, cu_seqlens)]
    logprobs, entropies = scores_of(model, hidden, torch.from_numpy(batch.token_ids)[action_mask])
    streams = LossStreams(
        logprobs=scatter_to_tokens(logprobs, action_mask),
        rollout_logprobs=torch.from_numpy(batch.rollout_logprobs),
        advantages=torch.from_numpy(batch.advantages),
        loss_mask=torch.from_numpy(batch.loss_mask),
        cu_seqlens=cu_seqlens,
        old_logprobs=None if batch.old_logprobs is None else torch.from_numpy(batch.old_logprobs),
        ref_logprobs=torch.from_numpy(batch.ref_logprobs),
        entropy=scatter_to_tokens(entropies, action_mask),
    )
    return policy_loss(streams, batch.totals, objective, KL_COEF)


def train_step(dtype, experience, objective, world, micro_batch_size, max_tokens, hidden_of, scores_of):
    """Return the loss, the gradient and the metrics of one step, as data-parallel ranks would compute them."""
    rows = range(len(experience))
    totals = step_totals(experience, rows)
    lengths = experience.attention_mask.sum(axis=1).tolist()
    plan = plan_micro_batches(lengths, world, micro_batch_size, max_tokens)
    loss, gradient, metrics = 0.0, 0.0, []
    for rank in plan:
        model = TinyModel(dtype)
        for rows in rank:
            result = share(model, pack(experience, rows, totals), objective, hidden_of, scores_of)
            (result.loss * world).backward()  # the caller undoes the engine's averaging over ranks ...
            loss += result.loss.item()
            metrics.append(result.metrics)
        gradient = gradient + torch.cat([p.grad.flatten() for p in model.parameters()]) / world  # ... which is here
    return loss, gradient, finalize(merge(metrics))


def rollouts(seed, on_policy):
    rng = np.random.default_rng(seed)
    experience = collate(random_groups(rng, num_groups=3, vocab=VOCAB))
    noise = rng.normal(scale=0.4, size=(2, *experience.sequences.shape)).astype(np.float32)
    near = -np.log(VOCAB)  # the untrained model is close to uniform
    experience.old_logprobs = (near + noise[0]).astype(np.float32)
    experience.rollout_logprobs = np.where(experience.action_mask, near + noise[1], 0).astype(np.float32)
    experience.ref_logprobs = experience.old_logprobs[:, ::-1].copy()
    found = compute_advantages(
        experience, AdvantageConfig(estimator="reinforce_baseline"), KlConfig(use_loss=True), KL_COEF
    )
    experience.advantages = found.advantages
    if on_policy:
        experience.old_logprobs = None
    return experience


LAYOUTS = [
    (1, 1, None, packed_hidden, whole_scores),
    (1, 2, None, packed_hidden, chunked_scores),
    (1, 100, None, padded_hidden, whole_scores),
    (1, None, 20, packed_hidden, whole_scores),
    (2, 1, None, padded_hidden, chunked_scores),
    (2, 2, None, packed_hidden, whole_scores),
    (2, None, 30, packed_hidden, chunked_scores),
    (3, None, 1000, padded_hidden, whole_scores),
    (16, 1, None, packed_hidden, whole_scores),  # more ranks than rows: fillers
]
SEQUENCE = Aggregation("sequence")
OBJECTIVES = {
    "token": PolicyObjective(0.2, 0.28, None, Aggregation("token"), 0.01, "k3", True),
    "sequence": PolicyObjective(0.2, 0.2, 3.0, SEQUENCE, 0.01, "k2", True),
    "tis": PolicyObjective(0.2, 0.2, None, Aggregation("token"), 0.0, "k3", True, Correction("tis", 0.7, 1.5)),
    "seq-mask-tis": PolicyObjective(0.2, 0.2, None, SEQUENCE, 0.0, "k3", True, Correction("seq-mask-tis", 0.7, 1.5)),
    "gspo": PolicyObjective(0.02, 0.04, None, SEQUENCE, 0.01, "k3", True, None, "gspo"),
    "cispo": PolicyObjective(
        0.2, 0.2, None, Aggregation("constant", 16), 0.01, "k3", True, Correction("seq-tis", 0.5, 2.0), "cispo"
    ),
}


CASES = [
    *((name, False, torch.float64) for name in OBJECTIVES),
    ("token", True, torch.float64),
    ("token", False, torch.float32),
]


@pytest.mark.parametrize(("name", "on_policy", "dtype"), CASES)
def test_every_layout_gives_the_same_step(name, on_policy, dtype):
    experience = rollouts(seed=1, on_policy=on_policy)
    assert not experience.loss_mask.any(axis=1).all()  # one sequence is fully masked
    whole = train_step(dtype, experience, OBJECTIVES[name], 1, 100, None, packed_hidden, whole_scores)
    assert whole[1].norm() > 1e-3
    assert "train/kl" in whole[2]
    for layout in LAYOUTS if name in ("token", "gspo") else LAYOUTS[::2]:
        loss, gradient, metrics = train_step(dtype, experience, OBJECTIVES[name], *layout)
        assert abs(loss - whole[0]) <= TOLERANCE[dtype] * whole[1].norm(), layout
        assert (gradient - whole[1]).norm() <= TOLERANCE[dtype] * whole[1].norm(), layout
        assert metrics == pytest.approx(whole[2], rel=1e-4, abs=1e-6), layout
    if OBJECTIVES[name].aggregation.mode != "constant":  # it logs KL and entropy as means over tokens
        assert whole[0] == pytest.approx(whole[2]["train/policy_loss"] + _extras(OBJECTIVES[name], whole[2]), abs=1e-5)


def _extras(objective, metrics):
    """What the loss holds beside the policy term, from the logged means."""
    return KL_COEF * metrics["train/kl"] - objective.entropy_coef * metrics["train/entropy"]
