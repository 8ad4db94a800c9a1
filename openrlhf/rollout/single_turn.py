"""The plainest executor: one prompt, one response."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from openrlhf.env.episode.budget import plan_budget
from openrlhf.env.episode.images import expanded
from openrlhf.interfaces import LLMEngine
from openrlhf.prompt_tokens import opening_id, prompt_ids
from openrlhf.rollout.agent import AgentExecutorBase
from openrlhf.types import Completion, EncodedImage, RewardOutcome, SamplingParams, Segment, Trajectory, Turn


class SingleTurnExecutor(AgentExecutorBase):
    """Leaves the verdict to the reward source; holds no state, so one object serves all samples."""

    async def execute(
        self,
        prompt: str,
        label: str,
        sampling_params: SamplingParams,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: LLMEngine,
        images: Sequence[Any] | None = None,
    ) -> Trajectory:
        """Sample one response."""
        prompt_token_ids = prompt_ids(hf_tokenizer, prompt)
        shown = tuple(images or ())
        if shown:
            prompt_token_ids = expanded(llm_engine, prompt_token_ids, shown)
        budget = plan_budget(
            prompt_token_ids,
            sampling_params.max_tokens,
            max_length,
            has_images=bool(images),
            opening=opening_id(hf_tokenizer),
        )
        sampling = dataclasses.replace(sampling_params, max_tokens=budget.max_tokens)
        completion = await llm_engine.generate(budget.prompt_token_ids, sampling, shown or None)
        aborted = completion.finish_reason == "aborted"
        return Trajectory(
            segments=(single_turn_segment(budget.prompt_token_ids, completion, shown),),
            truncated=completion.finish_reason == "length",
            outcome=RewardOutcome.ungraded("generation aborted") if aborted else None,
        )


def single_turn_segment(
    prompt_token_ids: Sequence[int], completion: Completion, images: tuple[EncodedImage, ...] = ()
) -> Segment:
    """Lay a prompt and its completion end to end.

    Masks come from positions, never from token ids: a sampled end-of-sequence token is an action even where the pad
    token has the same id.
    """
    prompt_length, num_actions = len(prompt_token_ids), len(completion.token_ids)
    length = prompt_length + num_actions
    action_mask = np.arange(length) >= prompt_length
    logprobs = np.zeros(length, dtype=np.float32)
    logprobs[prompt_length:] = completion.logprobs
    versions = np.full(length, -1, dtype=np.int32)
    versions[prompt_length:] = completion.policy_versions
    turns = (Turn(prompt_length, length),) if num_actions else ()
    return Segment(
        token_ids=np.concatenate([np.asarray(prompt_token_ids, dtype=np.int64), completion.token_ids]),
        action_mask=action_mask,
        loss_mask=action_mask.copy(),
        logprobs=logprobs,
        policy_versions=versions,
        turns=turns,
        images=images,
    )
