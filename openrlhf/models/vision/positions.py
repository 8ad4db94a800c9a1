"""Positions of tokens in models that place an image on a grid (M-RoPE)."""

from collections.abc import Sequence

import numpy as np

Grid = tuple[int, int]  # tokens of an image: rows, columns


def grid_positions(token_ids: np.ndarray, image_token_id: int, grids: Sequence[Grid]) -> np.ndarray:
    """(4, L) int64: the place in the sequence, and the coordinates of time, height and width.

    Text counts on in all three coordinates. The token in row r and column c of an image that begins at position p has
    (p, p + r, p + c), and what follows goes on at p + max(rows, columns). Source: Wang et al. 2024, Qwen2-VL, section
    2.1. ValueError where the image tokens are not those of the grids.
    """
    positions = np.empty((3, len(token_ids)), dtype=np.int64)
    is_image = np.asarray(token_ids) == image_token_id
    place = current = 0
    for rows, columns in grids:
        start = place + int(np.argmax(is_image[place:])) if is_image[place:].any() else len(token_ids)
        stop = start + rows * columns
        if stop > len(token_ids) or not is_image[start:stop].all():
            raise ValueError(f"an image of {rows} x {columns} tokens does not stand at token {start}")
        text = np.arange(start - place) + current
        positions[:, place:start] = text
        current += start - place
        row, column = np.divmod(np.arange(rows * columns), columns)
        positions[:, start:stop] = np.stack([np.full_like(row, current), current + row, current + column])
        current += max(rows, columns)
        place = stop
    if is_image[place:].any():
        raise ValueError(f"more image tokens than those of {len(grids)} images")
    positions[:, place:] = np.arange(len(token_ids) - place) + current
    return np.concatenate([np.arange(len(token_ids))[None], positions])
