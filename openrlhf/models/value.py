"""Models with a scalar head: the critic and the reward models.

Such a model is a Hugging Face `*ForSequenceClassification` with one label: a decoder, and a linear head from a hidden
state to one number, named `score` in the file unless the config's `value_head_prefix` names it otherwise. The config
may also record `mean` and `std` of the numbers the model was trained to give.

Loaded in transformers the folder works as any classifier; there the head runs at one token of each sequence. Here it
runs at chosen tokens of packed sequences (`TokenValues`).
"""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel
from transformers.utils import ModelOutput

from openrlhf.models.errors import ModelError
from openrlhf.models.load import check_complete, load_config, load_pretrained, prepare
from openrlhf.models.parts import SCORE, head_of

_PREFIX_KEY, _MEAN_KEY, _STD_KEY = "value_head_prefix", "mean", "std"


@dataclass(frozen=True, slots=True)
class Calibration:
    """The scale of a model's numbers: calibrated = (raw - mean) / std."""

    mean: float = 0.0
    std: float = 1.0

    def apply(self, raw: Any) -> Any:
        return (raw - self.mean) / self.std


class TokenValues(torch.nn.Module):
    """Runs a classifier's head at chosen tokens: its outputs hold `logits` (rows, kept columns, 1)."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, logits_to_keep: torch.Tensor, **inputs: Any) -> ModelOutput:
        """Inputs are the decoder's; `logits_to_keep` (K,) int64 names the columns at which the head runs."""
        hidden = self.model.base_model(**inputs).last_hidden_state
        return ModelOutput(logits=head_of(self.model)(hidden[:, logits_to_keep]))


def load_value_model(
    path: str,
    dtype: torch.dtype,
    attn_implementation: str,
    *,
    head_prefix: str = SCORE,
    new_head: bool = False,
    experts_implementation: str | None = None,
    gradient_checkpointing: bool = False,
    gradient_checkpointing_reentrant: bool = False,
) -> PreTrainedModel:
    """Load a one-label classifier on the CPU in `dtype`; the file's own config wins over `head_prefix`.

    Args:
        new_head: a folder without a head (a causal LM) is taken too; its head starts at 0, so that it says 0 about
            every state. Without `new_head` such a folder is refused: its numbers would mean nothing.

    Raises:
        ModelError: as in `load_causal_lm`; no head; several labels; an architecture without a scalar head.
    """
    config = load_config(path)
    is_classifier = any("SequenceClassification" in name for name in config.architectures or [])
    if is_classifier and config.num_labels != 1:
        raise ModelError(f"model {path!r}: its head has {config.num_labels} labels; a reward or value is one number")
    config.num_labels = 1
    prefix = str(config.to_dict().get(_PREFIX_KEY, head_prefix))
    model, report = load_pretrained(
        AutoModelForSequenceClassification,
        path,
        config,
        dtype=dtype,
        attn_implementation=attn_implementation,
        experts_implementation=experts_implementation,
        key_mapping={rf"^{prefix}\.": f"{SCORE}."},
    )
    _check_head(path, model, report, prefix, new_head)
    model.config.update({_PREFIX_KEY: prefix})
    prepare(model, gradient_checkpointing, gradient_checkpointing_reentrant)
    return model


def calibration(config: PretrainedConfig) -> Calibration:
    """What the config records; mean 0 and std 1 where it records nothing.

    Raises:
        ModelError: a standard deviation that is not above 0.
    """
    settings = config.to_dict()
    found = Calibration(float(settings.get(_MEAN_KEY, 0.0)), float(settings.get(_STD_KEY, 1.0)))
    if not found.std > 0:
        raise ModelError(f"model {config.name_or_path!r}: its config has std {found.std}; remove it or make it above 0")
    return found


def file_names(config: PretrainedConfig) -> dict[str, str]:
    """Name in the model -> name in its file, of the weights for which they differ."""
    prefix = str(config.to_dict().get(_PREFIX_KEY, SCORE))
    return {} if prefix == SCORE else {f"{SCORE}.{part}": f"{prefix}.{part}" for part in ("weight", "bias")}


def choose_pad_token(config: PretrainedConfig, tokenizer: Any) -> None:
    """Give a classifier and its tokenizer a pad token where the config names none.

    transformers batches no classifier without one, and reads the score at the last token that is not it: so the end
    token will not do, unless there is nothing else, and then none is named.
    """
    text = config.get_text_config()
    if text.pad_token_id is not None:
        return
    known = (tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.bos_token_id)
    pad = next((token for token in known if token not in (None, tokenizer.eos_token_id)), None)
    if pad is not None:
        text.pad_token_id = pad
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(pad)


def _check_head(path: str, model: PreTrainedModel, report: dict[str, Any], prefix: str, new_head: bool) -> None:
    head = dict(model.named_children()).get(SCORE)
    if not isinstance(head, torch.nn.Linear) or head.out_features != 1:
        raise ModelError(
            f"model {path!r}: {type(model).__name__} has no linear head {SCORE!r}; use a decoder architecture"
        )
    missing = {name for name in report["missing_keys"] if name.startswith(f"{SCORE}.")}
    if missing and not new_head:
        raise ModelError(
            f"model {path!r}: it has no head {prefix!r}, so it is no trained reward model; "
            "train one from it first, or name its head with --ds.value_head_prefix"
        )
    if missing:
        torch.nn.init.zeros_(head.weight)
        if head.bias is not None:
            torch.nn.init.zeros_(head.bias)
    check_complete(path, report | {"missing_keys": set(report["missing_keys"]) - missing})
