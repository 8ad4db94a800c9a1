"""Sampling parameters in the hands of agents: every episode has its own, and a step may hand back other ones."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from openrlhf.reward.normalise import kind_of
from openrlhf.rollout.errors import AgentReturnError
from openrlhf.types import SamplingParams

NAMES = tuple(field.name for field in fields(SamplingParams))

# Settings of vLLM's class that the engine decides itself: they change no token.
_ENGINE_DECIDES = {
    "logprobs",
    "flat_logprobs",
    "detokenize",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "output_kind",
    "output_text_buffer_length",
    "skip_clone",
}


def own_copy(sampling: SamplingParams, **changes: Any) -> SamplingParams:
    """A copy with other values for the fields in `changes`. Agents may change their parameters in place; nobody else
    must notice."""
    bias = None if sampling.logit_bias is None else dict(sampling.logit_bias)
    structure = None if sampling.structured_outputs is None else dict(sampling.structured_outputs)
    return replace(sampling, **{"logit_bias": bias, "structured_outputs": structure, **changes})


def same_distribution(one: SamplingParams, other: SamplingParams) -> bool:
    """Whether both sample a token from the same distribution."""
    return _distribution(one) == _distribution(other)


def _distribution(sampling: SamplingParams) -> tuple[Any, ...]:
    return sampling.temperature, sampling.top_p, sampling.logit_bias, sampling.structured_outputs


def adopt(current: SamplingParams, given: Any, where: str) -> SamplingParams:
    """The parameters of the next turns, from what a step returned.

    None: `current`. A mapping changes the fields that it names. Our own class, and vLLM's, replace them all; the object
    is copied, so that episodes which return the same one stay apart. AgentReturnError for anything else, and for a
    setting that has no counterpart here.
    """
    if given is None or given is current:
        return current
    if isinstance(given, SamplingParams):
        return own_copy(given)
    if isinstance(given, Mapping):
        return own_copy(replace(current, **_known(given, where)))
    if type(given).__module__.split(".")[0] == "vllm":
        return _from_vllm(given, where)
    raise AgentReturnError(f"{where} returned sampling_params {kind_of(given)}; expected SamplingParams or a dict")


def _known(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    strangers = sorted(str(name) for name in given if name not in NAMES)
    if strangers:
        what = f"{where} returned sampling_params with {', '.join(strangers)}"
        raise AgentReturnError(f"{what}; known: {', '.join(NAMES)}")
    return dict(given)


def _from_vllm(given: Any, where: str) -> SamplingParams:
    """Recognised by its module's name, so that nothing here imports vLLM."""
    from msgspec.structs import asdict

    values, defaults = asdict(given), asdict(type(given)())
    other = [
        f"{name}={value!r}"
        for name, value in values.items()
        if name not in NAMES and name not in _ENGINE_DECIDES and not name.startswith("_") and value != defaults[name]
    ]
    if other:
        what = f"{where} returned vLLM sampling_params with {', '.join(other)}"
        raise AgentReturnError(f"{what}; known: {', '.join(NAMES)}")
    chosen = {name: values[name] for name in NAMES}
    structure = chosen["structured_outputs"]
    return SamplingParams(**chosen | {"structured_outputs": None if structure is None else _set_fields(structure)})


def _set_fields(structure: Any) -> dict[str, Any]:
    """What is set in vLLM's StructuredOutputsParams."""
    return {name: value for name, value in vars(structure).items() if value and not name.startswith("_")}
