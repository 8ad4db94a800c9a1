"""Whole weights out of a model whose parameters may be sharded (ZeRO-3)."""

from collections.abc import Iterator

import deepspeed
import torch


def gathered_weights(model: torch.nn.Module, sharded: bool) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (name, whole tensor) for every parameter, in the model's order, on every rank.

    A tensor is valid until the next one is drawn: one parameter is whole at a time. All ranks must draw them all.
    A tied output head is left out: `named_parameters` names a shared tensor once, by the embedding.
    """
    for name, parameter in model.named_parameters():
        if not sharded:
            yield name, parameter.detach()
            continue
        with deepspeed.zero.GatheredParameters([parameter]):
            yield name, parameter.detach()
