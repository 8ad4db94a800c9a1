"""Translate between our records and vLLM's: sampling parameters in, completions out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from vllm import SamplingParams as VllmSamplingParams
from vllm.exceptions import VLLMValidationError
from vllm.inputs import TokensPrompt, tokens_input
from vllm.logprobs import FlatLogprobs
from vllm.outputs import RequestOutput, WeightVersionSpan
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

from openrlhf.interfaces import ImageTokens
from openrlhf.rollout.errors import GenerationError
from openrlhf.rollout.vllm.pictures import Pictures
from openrlhf.types import Completion, EncodedImage, FinishReason, SamplingParams

FINISH_REASONS: dict[str | None, FinishReason] = {"stop": "stop", "length": "length", "abort": "aborted"}


BAN = -100.0  # vLLM's strongest bias on a logit


@dataclass(frozen=True, slots=True)
class EnginePrompt:
    """A prompt that waits for the engine. Its images are decoded when it is handed over: held requests are many."""

    token_ids: tuple[int, ...]  # one placeholder per image
    images: tuple[EncodedImage, ...] = ()

    def order(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        return self.token_ids, tuple(image.digest for image in self.images)


def to_engine_prompt(
    prompt_token_ids: Sequence[int], images: Sequence[EncodedImage], image_tokens: ImageTokens | None
) -> EnginePrompt:
    """Ids of images come expanded and leave folded: vLLM would expand them once more.

    ValueError where the ids are not those of these images, or the model takes none.
    """
    ids = [int(token) for token in prompt_token_ids]
    if image_tokens is not None:
        ids = image_tokens.fold(ids, images)
    if images and image_tokens is None:
        raise ValueError(f"{len(images)} images for a model that takes none")
    if image_tokens is not None and len(images) > image_tokens.max_images:
        limit = f"--data.max_images_per_prompt {image_tokens.max_images}"
        raise ValueError(f"{len(images)} images in one prompt: over {limit}")
    return EnginePrompt(tuple(ids), tuple(images))


def to_vllm_prompt(prompt: EnginePrompt, pictures: Pictures) -> Any:
    """Return vLLM's prompt, its images decoded."""
    ids = list(prompt.token_ids)
    if not prompt.images:
        return tokens_input(ids)
    shown = [pictures.of(image) for image in prompt.images]
    return TokensPrompt(prompt_token_ids=ids, multi_modal_data={"image": shown})


def check_prompt(output: RequestOutput, prompt_token_ids: Sequence[int], engine: str) -> None:
    """GenerationError unless vLLM's prompt is the one that the trainer will see."""
    used = output.prompt_token_ids or []
    if list(used) != [int(token) for token in prompt_token_ids]:
        raise GenerationError(
            f"{engine}: request {output.request_id} ran on {len(used)} prompt tokens other than the "
            f"{len(prompt_token_ids)} that the model's processor makes: vLLM expands its images in another way"
        )


def to_vllm_sampling(
    sampling: SamplingParams, stop_token_ids: Sequence[int], banned_ids: Sequence[int] = ()
) -> VllmSamplingParams:
    """Return vLLM's parameters for one request; `stop_token_ids` are added to the request's own.

    `banned_ids` are never sampled. A sampled placeholder would be taken for an image that is not there.

    ValueError if max_tokens is open: the caller knows the context length and decides it (env/episode/budget.py).
    """
    if sampling.max_tokens is None:
        raise ValueError("SamplingParams.max_tokens is None: an engine needs the number of tokens it may sample")
    return VllmSamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        max_tokens=sampling.max_tokens,
        min_tokens=sampling.min_tokens,
        stop=list(sampling.stop) or None,
        stop_token_ids=sorted({*stop_token_ids, *sampling.stop_token_ids}) or None,
        include_stop_str_in_output=sampling.include_stop_str_in_output,
        seed=sampling.seed,
        logit_bias={**(sampling.logit_bias or {}), **dict.fromkeys(banned_ids, BAN)} or None,
        structured_outputs=_structured_outputs(sampling.structured_outputs),
        logprobs=0,  # the sampled token's only
        flat_logprobs=True,  # plain lists instead of one object per token
        detokenize=bool(sampling.stop),  # stop strings are found in text; nothing else needs it
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _structured_outputs(structure: Mapping[str, Any] | None) -> StructuredOutputsParams | None:
    """ValueError unless it names exactly one kind of structure, of those that vLLM has."""
    if structure is None:
        return None
    known = {field.name for field in fields(StructuredOutputsParams) if field.init}
    if strangers := sorted(structure.keys() - known):
        raise ValueError(f"SamplingParams.structured_outputs has no {', '.join(strangers)}; known: {sorted(known)}")
    try:
        return StructuredOutputsParams(**structure)
    except (ValueError, VLLMValidationError) as error:
        raise ValueError(f"SamplingParams.structured_outputs {dict(structure)!r}: {error}") from error


def to_completion(output: RequestOutput, engine: str) -> Completion:
    """Return the record of a finished request; GenerationError if logprobs or versions are missing, or the end has no
    meaning."""
    (sampled,) = output.outputs
    finish_reason = FINISH_REASONS.get(sampled.finish_reason)
    if finish_reason is None:
        raise GenerationError(f"{engine}: request {output.request_id} ended with {sampled.finish_reason!r}")
    token_ids = np.asarray(sampled.token_ids, dtype=np.int64)
    owner = f"{engine}: request {output.request_id}"
    logprobs = _sampled_logprobs(sampled.logprobs, token_ids, owner)
    return Completion(token_ids, logprobs, finish_reason, _policy_versions(sampled.weight_versions, token_ids, owner))


def _policy_versions(spans: Sequence[WeightVersionSpan] | None, token_ids: np.ndarray, owner: str) -> np.ndarray:
    """The version of the weights that sampled each token: (A,) int32; versions are the numbers we label them with."""
    versions = np.full(len(token_ids), -1, dtype=np.int32)
    for span in spans or ():  # in order; the last one's end leaves out tokens that a stop string swallowed
        versions[span.start :] = int(span.version)
    if np.any(versions < 0):
        raise GenerationError(f"{owner}: vLLM does not say which weights sampled its tokens: {spans}")
    return versions


def _sampled_logprobs(logprobs: Any, token_ids: np.ndarray, owner: str) -> np.ndarray:
    """Pick the sampled token's logprob at every position: (A,) float32."""
    if len(token_ids) == 0:
        return np.zeros(0, dtype=np.float32)
    if not isinstance(logprobs, FlatLogprobs) or len(logprobs) != len(token_ids):
        found = None if logprobs is None else len(logprobs)
        raise GenerationError(f"{owner}: {len(token_ids)} tokens but {found} logprobs")
    first = np.asarray(logprobs.start_indices)
    if not np.array_equal(np.asarray(logprobs.token_ids)[first], token_ids):  # the sampled token comes first
        raise GenerationError(f"{owner}: the logprobs belong to other tokens than the sampled ones")
    values = np.asarray(logprobs.logprobs, dtype=np.float32)[first]
    if not np.all(np.isfinite(values)):
        raise GenerationError(f"{owner}: a sampled token has no finite logprob")
    return values
