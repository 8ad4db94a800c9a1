"""Rewards from trained models: one number per sequence, read at its last token.

    models = load_reward_models(paths, weights, ..., policy_tokenizer=tokenizer)
    rewards = models.score(micro_batches)     # token ids of the policy, as sampled
    rewards = texts.score_texts(queries)      # served: see `reward/server.py`

A model with the policy's vocabulary reads the very tokens that were sampled. Another one reads their text, encoded by
its own tokenizer.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from openrlhf.config.data import DataConfig
from openrlhf.config.train import DsConfig
from openrlhf.models.attention import default_attention
from openrlhf.models.forward import outputs_at
from openrlhf.models.layout import Layout
from openrlhf.models.layout_choice import choose_layout
from openrlhf.models.load import DTYPES, check_vocabulary
from openrlhf.models.scoring import FrozenBackend
from openrlhf.models.tokenizer import load_tokenizer
from openrlhf.models.value import Calibration, TokenValues, calibration, load_value_model
from openrlhf.prompt_tokens import kept_end, opened, opening_id
from openrlhf.types import MicroBatch, StepTotals

logger = logging.getLogger(__name__)

_MAX_TOKENS = 8192  # of texts in one pass: a packed row's attention mask grows with the square

Hold = Callable[[PreTrainedModel, torch.nn.Module], FrozenBackend]  # (model, what to run) -> where its weights are kept


@dataclass(frozen=True, slots=True)
class RewardModel:
    """One model with a scalar head, its tokenizer, and the scale of its numbers."""

    backend: FrozenBackend
    tokenizer: PreTrainedTokenizerBase
    layout: Layout
    scale: Calibration
    max_len: int  # tokens; longer texts lose their beginning

    def score(self, batches: Sequence[MicroBatch]) -> list[np.ndarray]:
        """(S,) float32 per micro-batch, at the last token of each sequence."""
        with torch.no_grad(), self.backend.loaded():
            return [self._score(batch) for batch in batches]

    def encode(self, text: str, ended: bool = False) -> list[int]:
        """Token ids of a whole conversation; special tokens written in it count as such, and the last `max_len` stay.

        It begins with the beginning-of-sequence token, once, where the tokenizer puts it before every text, also where
        what follows is cut. The end token is there where the text has it, or where it `ended`: a text that stops
        without it is scored where it stops (ADR 0016), whatever the tokenizer would append. An empty text is the end
        token.
        """
        ids: list[int] = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        end = self.tokenizer.eos_token_id
        if ended and end is not None:
            ids.append(end)
        opening = opening_id(self.tokenizer)
        return kept_end(opened(ids, opening) or [end or 0], self.max_len, opening)

    def _score(self, batch: MicroBatch) -> np.ndarray:
        last = torch.from_numpy(batch.cu_seqlens[1:]).long() - 1
        raw = outputs_at(self.backend, batch, last, self.layout).logits.squeeze(-1)
        return self.scale.apply(raw.float()).cpu().numpy().astype(np.float32)


class RewardModels:
    """The weighted sum of several models."""

    def __init__(
        self,
        members: Sequence[RewardModel],
        weights: Sequence[float],
        policy_tokenizer: PreTrainedTokenizerBase | None = None,
        policy_ends: Collection[int] = (),
    ) -> None:
        """`policy_ends`: the tokens at which the policy stops; its tokenizer's end token where there is none.

        Raises ValueError unless there is one weight per model.
        """
        if len(members) != len(weights):
            raise ValueError(f"{len(members)} reward models with {len(weights)} weights: give one weight per model")
        self.members = tuple(members)
        self._weights = tuple(weights)
        self._policy = policy_tokenizer
        self._ends = policy_ends or ([] if policy_tokenizer is None else [policy_tokenizer.eos_token_id])
        self._foreign = [
            policy_tokenizer is not None and policy_tokenizer.get_vocab() != member.tokenizer.get_vocab()
            for member in members
        ]
        for member, foreign in zip(members, self._foreign, strict=True):
            if foreign:
                logger.warning(
                    "reward model %s has another vocabulary than the policy: it reads the text of the samples",
                    member.backend.model.config.name_or_path,
                )

    def score(self, batches: Sequence[MicroBatch]) -> list[np.ndarray]:
        """Rewards of the policy's sequences, (S,) float32 per micro-batch; those of fillers mean nothing."""
        per_member = [
            member.score([self._translate(member, batch) for batch in batches] if foreign else batches)
            for member, foreign in zip(self.members, self._foreign, strict=True)
        ]
        return [self._sum(parts) for parts in zip(*per_member, strict=True)]

    def score_texts(self, texts: Sequence[str], batch_size: int | None = None) -> tuple[np.ndarray, list[np.ndarray]]:
        """(rewards, each model's own), all (len(texts),) float32.

        Args:
            batch_size: most texts in one forward pass; None: as many as fit.
        """
        parts = [_score_texts(member, texts, batch_size or len(texts)) for member in self.members]
        return self._sum(parts), parts

    def _sum(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        total = np.zeros(len(parts[0]), dtype=np.float32)
        for weight, part in zip(self._weights, parts, strict=True):
            total += np.float32(weight) * part
        return total

    def _translate(self, member: RewardModel, batch: MicroBatch) -> MicroBatch:
        """The same sequences in the model's own tokens; the policy's first and end tokens become the model's."""
        assert self._policy is not None
        own_opening = self._policy.bos_token == member.tokenizer.bos_token
        sequences = []
        for start, end in zip(batch.cu_seqlens[:-1], batch.cu_seqlens[1:], strict=True):
            ids = batch.token_ids[start:end].tolist()
            ended = ids[-1] in self._ends
            skipped = ids[0] == self._policy.bos_token_id and not own_opening
            text = self._policy.decode(ids[skipped : len(ids) - ended], clean_up_tokenization_spaces=False)
            sequences.append(member.encode(str(text), ended))
        return token_batch(sequences)


def load_reward_models(
    paths: Sequence[str],
    weights: Sequence[float],
    *,
    ds: DsConfig,
    data: DataConfig,
    device: str,
    calibrated: bool,
    hold: Hold,
    policy_tokenizer: PreTrainedTokenizerBase | None = None,
    policy_ends: Collection[int] = (),
) -> RewardModels:
    """Load every model.

    Args:
        calibrated: numbers are put on the scale that each model's config records.
        hold: decides where a model's weights are kept.
        policy_tokenizer: of the token ids that `score` will get; None: only texts will be scored.
        policy_ends: as for `RewardModels`.

    Raises:
        ModelError: one cannot be loaded, has no scalar head, or a tokenizer that does not fit it.
    """
    members = []
    for path in paths:
        model = load_value_model(
            path,
            DTYPES[ds.dtype],
            ds.attn_implementation or default_attention(device),
            head_prefix=ds.value_head_prefix,
            experts_implementation=ds.experts_implementation,
        )
        tokenizer = load_tokenizer(path)
        check_vocabulary(path, model, tokenizer)
        scale = calibration(model.config) if calibrated else Calibration()
        backend = hold(model, TokenValues(model))
        with backend.loaded():
            layout = choose_layout(ds, backend)
        members.append(RewardModel(backend, tokenizer, layout, scale, data.max_len))
    return RewardModels(members, weights, policy_tokenizer, policy_ends)


def token_batch(sequences: Sequence[Sequence[int]]) -> MicroBatch:
    """Sequences end to end, nothing of them an action: for scoring only."""
    lengths = [len(sequence) for sequence in sequences]
    total = sum(lengths)
    return MicroBatch(
        token_ids=np.concatenate([np.asarray(sequence, dtype=np.int64) for sequence in sequences]),
        position_ids=np.concatenate([np.arange(length, dtype=np.int64) for length in lengths]),
        cu_seqlens=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        action_mask=np.zeros(total, dtype=bool),
        loss_mask=np.zeros(total, dtype=bool),
        rollout_logprobs=np.zeros(total, dtype=np.float32),
        rows=np.arange(len(sequences)),
        totals=StepTotals(0.0, 0.0),
    )


def _score_texts(member: RewardModel, texts: Sequence[str], batch_size: int) -> np.ndarray:
    """Scores in the order of the texts; those of like length share a pass."""
    encoded = [member.encode(text) for text in texts]
    cuts = _cut([len(ids) for ids in encoded], batch_size)
    scores = np.empty(len(texts), dtype=np.float32)
    batches = [token_batch([encoded[i] for i in cut]) for cut in cuts]
    for cut, part in zip(cuts, member.score(batches), strict=True):
        scores[cut] = part
    return scores


def _cut(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Indices of each pass, shortest first: at most `batch_size` of them and _MAX_TOKENS tokens, or one longer text."""
    cuts: list[list[int]] = []
    room = 0
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if not cuts or lengths[index] > room or len(cuts[-1]) == batch_size:
            cuts.append([])
            room = _MAX_TOKENS
        cuts[-1].append(index)
        room -= lengths[index]
    return cuts
