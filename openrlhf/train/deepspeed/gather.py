"""Whole weights, and even shares of them, out of a model whose parameters may be sharded (ZeRO-3)."""

from collections.abc import Iterable, Iterator

import deepspeed
import torch


def gathered_weights(
    model: torch.nn.Module, sharded: bool, trained_only: bool = False
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (name, whole tensor) for every parameter, or every trained one, in the model's order, on every rank.

    The buffers that a model's file holds (routers' correction biases) follow, unless only what is trained is asked for.

    A tensor is valid until the next one is drawn: one parameter is whole at a time. All ranks must draw them all.
    A tied output head is left out: `named_parameters` names a shared tensor once, by the embedding.
    """
    for name, parameter in model.named_parameters():
        if trained_only and not parameter.requires_grad:
            continue
        if not sharded:
            yield name, parameter.detach()
            continue
        with deepspeed.zero.GatheredParameters([parameter]):
            yield name, parameter.detach()
    if not trained_only:
        in_the_file = model.state_dict().keys()
        yield from ((name, buffer) for name, buffer in model.named_buffers() if name in in_the_file)


class Slices:
    """Every trained weight cut into W equal flat parts, one per rank, the last ones padded with zeros.

    ZeRO-3 keeps its parameters like that; of other parameters each rank takes its part.
    """

    def __init__(self, model: torch.nn.Module, sharded: bool, rank: int, world_size: int) -> None:
        self._model, self._sharded = model, sharded
        self._rank, self._world_size = rank, world_size

    def local(self) -> Iterator[tuple[str, torch.Tensor]]:
        """This rank's parts: views where they can be, the padding left out where the parameter is whole."""
        for name, parameter in self._trained():
            if self._sharded:
                yield name, parameter.ds_tensor.detach()  # type: ignore[attr-defined]  # DeepSpeed's own attribute
            else:
                width = self._width(parameter)
                yield name, parameter.detach().flatten()[self._rank * width : (self._rank + 1) * width]

    def whole(self, parts: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
        """Put the ranks' parts together again, one weight at a time. Collective.

        Raises:
            ValueError: the parts are not those of this model's weights, in their order.
        """
        for (name, parameter), (own, part) in zip(self._trained(), parts, strict=True):
            if name != own:
                raise ValueError(f"a part of {own!r} where one of {name!r} belongs")
            mine = part.new_zeros(self._width(parameter))
            mine[: len(part)] = part
            everyone = [mine]
            if self._world_size > 1:
                everyone = [torch.empty_like(mine) for _ in range(self._world_size)]
                torch.distributed.all_gather(everyone, mine)
            shape = parameter.ds_shape if self._sharded else parameter.shape  # type: ignore[attr-defined]
            yield name, torch.cat(everyone)[: shape.numel()].view(shape)

    def _trained(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        return ((name, parameter) for name, parameter in self._model.named_parameters() if parameter.requires_grad)

    def _width(self, parameter: torch.nn.Parameter) -> int:
        if self._sharded:
            return int(parameter.ds_tensor.numel())  # type: ignore[attr-defined]
        return -(-parameter.numel() // self._world_size)
