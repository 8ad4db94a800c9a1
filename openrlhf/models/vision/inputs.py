"""From the images of a micro-batch to what a vision-language model's forward pass takes beside token ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from openrlhf.images import read_image
from openrlhf.models.vision.positions import grid_positions
from openrlhf.models.vision.processor import VisionProcessor
from openrlhf.types import EncodedImage, MicroBatch

# Width and height of the blank images that are tried. Some processors scale every image up to a large side and cut it
# into tiles: of a long one into a row of them, where a square has many rows.
_BLANKS = ((32, 32), (128, 4))


@dataclass(frozen=True, slots=True)
class VisionInputs:
    """Makes the inputs of one model.

    Args:
        sharded: the encoder's weights lie spread over the ranks, so that all of them must run it equally often.
        trained: the encoder's gradients are summed over the ranks, so that each of them must have one.
    """

    processor: VisionProcessor
    sharded: bool = False
    trained: bool = False

    @property
    def banned_ids(self) -> tuple[int, ...]:
        return self.processor.banned_ids

    def with_encoder(self, batch: MicroBatch) -> MicroBatch:
        """The micro-batch, and behind it a sequence that shows a blank image where the encoder must run and would not:
        in a micro-batch of text, or a filler. Nothing looks at that sequence, so its gradient is zero."""
        if batch.images is not None or not (self.sharded or (self.trained and torch.is_grad_enabled())):
            return batch
        blank = _blank_image(self.processor)
        ids = np.asarray(self.processor.tokens(blank), dtype=np.int64)
        length, nothing = len(ids), np.zeros(len(ids), dtype=bool)
        return MicroBatch(
            token_ids=np.concatenate([batch.token_ids, ids]),
            position_ids=np.concatenate([batch.position_ids, np.arange(length)]),
            cu_seqlens=np.append(batch.cu_seqlens, batch.cu_seqlens[-1] + length).astype(np.int32),
            action_mask=np.concatenate([batch.action_mask, nothing]),
            loss_mask=np.concatenate([batch.loss_mask, nothing]),
            rollout_logprobs=np.concatenate([batch.rollout_logprobs, np.zeros(length, dtype=np.float32)]),
            rows=np.append(batch.rows, -1),
            totals=batch.totals,
            images=(*((),) * len(batch.rows), (blank,)),
        )

    def check(self, batch: MicroBatch) -> None:
        """Raises ValueError where a sequence's tokens are not those of its images, in their order."""
        images = batch.images or ((),) * len(batch.rows)
        for row, own, start, stop in zip(batch.rows, images, batch.cu_seqlens[:-1], batch.cu_seqlens[1:], strict=True):
            try:
                self.processor.fold(batch.token_ids[start:stop].tolist(), own)
            except ValueError as error:
                raise ValueError(f"row {row}: {error}") from error

    def in_prompts(self, batch: MicroBatch) -> bool:
        """Whether no image stands behind an action of its sequence."""
        acted = np.zeros(len(batch.token_ids), dtype=bool)
        for start, stop in zip(batch.cu_seqlens[:-1], batch.cu_seqlens[1:], strict=True):
            acted[start:stop] = np.logical_or.accumulate(batch.action_mask[start:stop])
        return not np.any(acted & (batch.token_ids == self.processor.token_id))

    def tensors(
        self, batch: MicroBatch, device: torch.device, sequences: Sequence[int] | None = None
    ) -> dict[str, torch.Tensor]:
        """Pixels of the images of these sequences (None: of all), in their order."""
        images = batch.images or ((),) * len(batch.rows)
        chosen = images if sequences is None else [images[sequence] for sequence in sequences]
        made = self.processor.tensors([image for own in chosen for image in own])
        return {name: tensor.to(device) for name, tensor in made.items()}

    def position_ids(self, batch: MicroBatch) -> np.ndarray:
        """(1, N) or, where positions are on a grid, (4, N): row 0 begins at 0 with every sequence."""
        if self.processor.architecture.positions == "plain":
            return batch.position_ids[None]
        images = batch.images or ((),) * len(batch.rows)
        return np.concatenate(
            [
                grid_positions(
                    batch.token_ids[start:stop], self.processor.token_id, [self.processor.grid(i) for i in own]
                )
                for own, start, stop in zip(images, batch.cu_seqlens[:-1], batch.cu_seqlens[1:], strict=True)
            ],
            axis=1,
        )


@cache
def _blank_image(processor: VisionProcessor) -> EncodedImage:
    """The one with the fewest tokens: it is computed beside every micro-batch of text, over its budget."""
    from PIL import Image

    tried = [read_image(Image.new("RGB", size, "white")) for size in _BLANKS]
    return min(tried, key=lambda image: len(processor.tokens(image)))
