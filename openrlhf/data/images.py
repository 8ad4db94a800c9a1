"""The images of a row."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from openrlhf.data.errors import DataError, listing
from openrlhf.data.rows import Row, Table
from openrlhf.images import ImageError, listed, read_image
from openrlhf.interfaces import ImageTokens
from openrlhf.prompt_tokens import prompt_ids
from openrlhf.types import EncodedImage, Prompt

logger = logging.getLogger(__name__)

_SHOWN = 60  # characters of a prompt in a message


def images_of(
    row: Row, key: str, text: str, vision: ImageTokens, fetched: dict[str, EncodedImage] | None = None
) -> tuple[EncodedImage, ...]:
    """Read the images of a row, in the order of their placeholders in its rendered text.

    `fetched`: see `read_image`.

    Raises:
        DataError: one that cannot be used (see openrlhf/images.py), more than a prompt may have, or not as many as the
            text has placeholders. The line names row and image.
    """
    values = listed(row.values.get(key)) if vision.max_images else ()
    placeholders = text.count(vision.token)
    if placeholders and not vision.max_images:
        raise DataError(
            f"{row.where}: the prompt shows {placeholders} images, but --data.max_images_per_prompt is 0 (as always in "
            "the evaluate command, which shows text only)"
        )
    if len(values) > vision.max_images:
        raise DataError(
            f"{row.where}: {key!r} has {len(values)} images; --data.max_images_per_prompt is {vision.max_images}"
        )
    if placeholders != len(values):
        raise DataError(f"{row.where}: {key!r} has {len(values)} images, but the prompt has places for {placeholders}")
    return tuple(_image(row, key, number, value, fetched) for number, value in enumerate(values, start=1))


def _image(row: Row, key: str, number: int, value: Any, fetched: dict[str, EncodedImage] | None) -> EncodedImage:
    try:
        return read_image(value, *_folders(row.source), fetched=fetched)
    except ImageError as error:
        raise DataError(f"{row.where}: {key!r}, image {number}: {error}") from error


def _folders(source: str) -> tuple[Path, ...]:
    """Where the paths of a data file start: beside it; of a saved-to-disk `folder[split]`, in it first."""
    folder = Path(source.rpartition("[")[0]) if source.endswith("]") else Path(source)
    return (folder, folder.parent) if folder.is_dir() else (folder.parent,)


def check_images_fit(prompts: Sequence[Prompt], tokenizer: Any, budget: int, vision: ImageTokens, dataset: str) -> None:
    """A prompt with images is never cut, so it must fit.

    Args:
        dataset: what to call the set of these prompts, where they do not say where they came from.

    Raises:
        DataError: the first prompt that has more than `budget` tokens with all those of its images, or an image that
            the model's processor refuses.
    """
    for prompt in prompts:
        if not prompt.images:
            continue
        sources = listing([image.source for image in prompt.images])
        where = prompt.where or f"{dataset}: prompt {prompt.prompt_id}"
        name = f"{where} ({prompt.text[:_SHOWN]!r}, images: {sources})"
        try:
            length = len(vision.expand(prompt_ids(tokenizer, prompt.text), prompt.images))
        except ValueError as error:
            raise DataError(f"{name}: {error}") from error
        if length > budget:
            raise DataError(
                f"{name} has {length} tokens with its images, and only {budget} are left for it: raise "
                "--data.max_len, or use smaller images"
            )


def tell_of_unshown(key: str) -> Callable[[Table], None]:
    """For a run of text only: a function that tells once of each table with a column of images.

    Its values stay unread, for they may be many gigabytes.
    """
    told: set[str] = set()

    def tell(table: Table) -> None:
        if key in table.columns and table.name not in told:
            told.add(table.name)
            logger.warning(
                "%s: its column %r is not used, for this run shows no images: to show them, take a vision-language "
                "model and set --data.max_images_per_prompt",
                table.name,
                key,
            )

    return tell
