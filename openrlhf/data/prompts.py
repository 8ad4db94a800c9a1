"""The prompt set: what the policy is asked, in an order that stays the same across epochs and resumes."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, overload

from openrlhf.config.data import DataConfig
from openrlhf.config.rollout import EvalConfig
from openrlhf.data.errors import DataError
from openrlhf.data.images import images_of, tell_of_unshown
from openrlhf.data.labels import label_names, label_text
from openrlhf.data.rows import Row, Table
from openrlhf.data.source import load_rows
from openrlhf.data.template import make_renderer
from openrlhf.data.tools import TOOLS, tools_of, warn_of_other_tools
from openrlhf.interfaces import ImageTokens
from openrlhf.types import EncodedImage, Prompt

logger = logging.getLogger(__name__)


class PromptSet(Sequence[Prompt]):
    """Prompts whose `prompt_id` is their position. DataError if there are none, ValueError if an id is not."""

    def __init__(self, rows: Sequence[Prompt]) -> None:
        if not rows:
            raise DataError("the prompt set is empty")
        for position, prompt in enumerate(rows):
            if prompt.prompt_id != position:
                raise ValueError(f"PromptSet: prompt_id {prompt.prompt_id} at position {position}")
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, index: int) -> Prompt: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Prompt]: ...
    def __getitem__(self, index: int | slice) -> Prompt | Sequence[Prompt]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Prompt]:
        return iter(self._rows)

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest over the text of every prompt and what goes with it, in order; equal iff the sets are equal."""
        digest = hashlib.sha256()
        for prompt in self._rows:
            fields = (prompt.text, prompt.label, prompt.datasource, prompt.task, prompt.env_func)
            images = [image.digest for image in prompt.images]
            digest.update(json.dumps((*fields, images) if images else fields).encode() + b"\n")
        return digest.hexdigest()


def build_prompts(
    spec: str,
    *,
    tokenizer: Any | None = None,
    split: str = "train",
    probs: str | None = None,
    input_key: str = "input",
    label_key: str | None = None,
    input_template: str | None = None,
    apply_chat_template: bool = False,
    max_samples: int | None = None,
    seed: int = 42,
    image_key: str = "images",
    vision: ImageTokens | None = None,
    on_table: Callable[[Table], None] | None = None,
) -> PromptSet:
    """Read, check and render a prompt set; every row is checked here, before any model is loaded.

    `vision`: of a vision-language model. Where it may see images, each row's are read, and must be as many as its text
    has placeholders. `on_table`: see `load_rows`.

    Columns `datasource`, `task` and `env_func` are taken along where they exist; a label that is a JSON object may name
    the last two as well. With `apply_chat_template` the column `tools` goes to the template. Raises DataError in one
    line.
    """
    renderer = make_renderer(tokenizer, apply_chat_template, input_template, vision)
    wanted = () if vision is None or vision.max_images == 0 else (image_key,)
    tools = (TOOLS,) if apply_chat_template else ()
    rows = load_rows(
        spec,
        required=[input_key] if label_key is None else [input_key, label_key],
        optional=("datasource", "task", "env_func", *wanted, *tools),
        split=split,
        probs=probs,
        max_samples=max_samples,
        seed=seed,
        on_table=on_table,
    )
    fetched: dict[str, EncodedImage] = {}
    made: dict[int, Prompt] = {}  # interleaving repeats rows of the smaller sets
    prompts = []
    for position, row in enumerate(rows):
        prompt = made.get(id(row))
        if prompt is None:
            text = renderer(row, input_key)
            images = () if vision is None else images_of(row, image_key, text, vision, fetched)
            prompt = _prompt(row, position, text, label_text(row, label_key), images)
        made[id(row)] = prompt
        prompts.append(replace(prompt, prompt_id=position))
    if apply_chat_template and tokenizer is not None:
        _warn_of_unread_tools(tokenizer, rows)
        warn_of_other_tools(rows)
    return PromptSet(prompts)


def _warn_of_unread_tools(tokenizer: Any, rows: Sequence[Row]) -> None:
    first = next((row for row in rows if tools_of(row)), None)
    if first is not None and TOOLS not in str(tokenizer.chat_template):
        logger.warning(
            "%s: column %r has no effect: the model's chat template writes no tools; put one that does into the "
            "model's folder, or the tools into the prompts",
            first.where,
            TOOLS,
        )


def training_prompts(
    data: DataConfig, tokenizer: Any | None, seed: int, vision: ImageTokens | None = None
) -> PromptSet:
    """The prompts to train on. DataError also if no dataset is named."""
    if data.prompt_dataset is None:
        raise DataError("no prompts: name a file, folder or hub dataset with --data.prompt_dataset")
    return build_prompts(
        data.prompt_dataset,
        tokenizer=tokenizer,
        split=data.prompt_split,
        probs=data.prompt_probs,
        input_key=data.input_key,
        label_key=data.label_key,
        input_template=data.input_template,
        apply_chat_template=data.apply_chat_template,
        max_samples=data.max_samples,
        seed=seed,
        image_key=data.image_key,
        vision=vision,
        on_table=None if data.max_images_per_prompt else tell_of_unshown(data.image_key),
    )


def evaluation_prompts(
    evaluation: EvalConfig, data: DataConfig, tokenizer: Any | None, seed: int, vision: ImageTokens | None = None
) -> PromptSet | None:
    """The held-out prompts, read with the same keys and template as the training ones; None if no set is named."""
    if evaluation.dataset is None:
        return None
    return build_prompts(
        evaluation.dataset,
        tokenizer=tokenizer,
        split=evaluation.split,
        input_key=data.input_key,
        label_key=data.label_key,
        input_template=data.input_template,
        apply_chat_template=data.apply_chat_template,
        max_samples=evaluation.max_samples,
        seed=seed,
        image_key=data.image_key,
        vision=vision,
        on_table=None if data.max_images_per_prompt else tell_of_unshown(data.image_key),
    )


def _prompt(row: Row, position: int, text: str, label: str, images: tuple[EncodedImage, ...]) -> Prompt:
    named = label_names(label)
    return Prompt(
        prompt_id=position,
        text=text,
        label=label,
        images=images,
        datasource=_name(row, "datasource", {}) or "default",
        task=_name(row, "task", named),
        env_func=_name(row, "env_func", named),
        where=row.where if images else "",
    )


def _name(row: Row, key: str, named: Mapping[str, str]) -> str | None:
    """What a column, or the label, says; DataError where both do and differ."""
    column, label = label_text(row, key) or None, named.get(key)
    if column is not None and label is not None and column != label:
        raise DataError(f"{row.where}: {key} is {column!r}, but {label!r} in the label; leave one of them out")
    return column or label
