"""Functions in the form of older versions, made to fit today's registries. This is the only place that knows that form.

    reward     (prompt, response, label, finish_reason, pad_token, code_exection_nums, code_exection_errors, max_tokens,
               stop_tokens) -> {name: [number]}; any of these parameters, by name, plain or async
    filter     exp_filter(exp, sample, args): exp is None, or {"base_ppl": number} where it is known; args is None
    generate   async (url, headers, idx, request, tokenizer, use_reward)
               -> (idx, Output) | request (go on with it) | None (try again)

`url` of a generate function is the engine: `await url(token_ids, **changes)` gives a `Completion`; `changes` are fields
of `SamplingParams`.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openrlhf.config.env import EnvConfig
from openrlhf.env.episode.budget import plan_budget
from openrlhf.env.errors import EnvError
from openrlhf.env.label import read_label
from openrlhf.env.task import FilterSample, TaskSample
from openrlhf.env.terms.code_use import ERRORS, RUNS
from openrlhf.env.tools import TaskTools
from openrlhf.faults import describe, is_ctrl_c
from openrlhf.interfaces import LLMEngine
from openrlhf.prompt_tokens import opening_id, prompt_ids
from openrlhf.types import Completion, SamplingParams, Segment, Trajectory

STOPS = ("User:", "Human:", "Assistant:", "</answer>")


def parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def task_reward(name: str, function: Callable[..., Any]) -> Callable[[TaskSample, TaskTools], Any]:
    """A reward of today's form, `(sample, tools)` under whatever names, as it is; one of the older form wrapped.

    The older form has names of its own, and none but those. EnvError for a function that is neither.
    """
    wanted = parameters(function)
    known = set(_reward_arguments(TaskSample("", "", {}, "stop", 0, 0)))
    is_older = bool(wanted) and set(wanted) <= known
    if len(wanted) == 2 and not is_older:
        return function
    if not is_older:
        raise EnvError(
            f"task {name}: its reward takes ({', '.join(wanted)}); expected (sample, tools), or parameters among "
            f"{', '.join(sorted(known))}"
        )

    async def adapted(sample: TaskSample, tools: TaskTools) -> Any:
        arguments = _reward_arguments(sample)
        answer = function(**{name: arguments[name] for name in wanted})
        return await answer if inspect.isawaitable(answer) else answer

    return adapted


def _reward_arguments(sample: TaskSample) -> dict[str, Any]:
    return {
        "prompt": sample.prompt,
        "response": sample.response,
        "label": dict(sample.label),
        "finish_reason": sample.finish_reason,
        "pad_token": sample.eos,
        "code_exection_nums": sample.fact(RUNS),
        "code_exection_errors": sample.fact(ERRORS),
        "max_tokens": sample.max_tokens,
        "stop_tokens": list(dict.fromkeys([*STOPS, *([sample.eos] if sample.eos else []), *sample.ends])),
    }


def task_filter(name: str, function: Callable[..., Any]) -> Callable[[FilterSample], bool]:
    """A filter of today's form, `(sample)`, or `(exp, sample, args)`, as one that takes the sample.

    EnvError for any other, and, from the returned function, where the filter raises.
    """
    count = len(parameters(function))
    if count not in (1, 3):
        raise EnvError(f"filter {name}: takes {count} parameters; expected (sample), or (exp, sample, args)")

    def ask(sample: FilterSample) -> bool:
        known = None if sample.base_perplexity is None else {"base_ppl": sample.base_perplexity}
        arguments: tuple[Any, ...] = (sample,) if count == 1 else (known, sample, None)
        try:
            return bool(function(*arguments))
        except BaseException as error:  # a filter is somebody's code
            if is_ctrl_c(error):
                raise
            raise EnvError(f"filter {name} raised {describe(error)}") from error

    return ask


@dataclass
class Request:
    """One sample on its way. A generate function may change it, put more into `state`, and return it to go on."""

    prompts: list[str]
    prompt_token_ids: list[int]
    label: dict[str, Any]
    max_tokens: int
    temperature: float
    top_p: float
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    """A finished response: what the policy sampled (`action_mask` 1) and what the environment added (0)."""

    token_ids: Sequence[int]
    action_mask: Sequence[int]
    log_probs: Sequence[float]  # 0 where action_mask is 0
    finish_reason: str  # "stop" or "length"
    facts: Mapping[str, float] = field(default_factory=dict)


def is_generate(function: Callable[..., Any]) -> bool:
    """Whether it is a generate function of the older form."""
    return {"idx", "request", "tokenizer"} <= set(parameters(function))


class LegacyExecutor:
    """Runs a generate function; implements interfaces.Executor."""

    def __init__(self, name: str, function: Callable[..., Any], env: EnvConfig) -> None:
        self._name = name
        self._function = function
        self._tries = env.max_retries + 1

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
        """Call the function until it gives an output. RuntimeError where it does not within the tries."""
        budget = plan_budget(
            prompt_ids(hf_tokenizer, prompt),
            sampling_params.max_tokens,
            max_length,
            has_images=bool(images),
            opening=opening_id(hf_tokenizer),
        )
        ids = budget.prompt_token_ids
        engine = _Engine(llm_engine, sampling_params, max_length)
        label_fields = dict(read_label(label))
        fresh = Request(
            [prompt], ids, label_fields, budget.max_tokens, sampling_params.temperature, sampling_params.top_p
        )
        request = dataclasses.replace(fresh, prompt_token_ids=ids.copy(), state={})
        for _ in range(self._tries):
            try:
                answer = await self._function(engine, {}, 0, request, hf_tokenizer, use_reward=False)
            except TimeoutError:  # a generation took longer than --env.request_timeout
                answer = None
            if isinstance(answer, Request):
                request = answer
            elif answer is None:
                engine.completions.clear()
                request = dataclasses.replace(fresh, prompt_token_ids=ids.copy(), state={})
            else:
                return self._trajectory(ids, answer[1], engine.completions, max_length)
        raise RuntimeError(f"environment {self._name}: no output after {self._tries} calls")

    async def close(self) -> None:
        """Nothing to close."""

    def _trajectory(self, prompt: list[int], output: Any, completions: list[Completion], max_length: int) -> Trajectory:
        """What goes beyond `max_length`, which the function's own tokens may, is cut off."""
        if not isinstance(output, Output):
            raise TypeError(f"environment {self._name}: gave a {type(output).__name__}; expected legacy.Output")
        actions = np.concatenate([np.zeros(len(prompt), bool), np.asarray(output.action_mask, dtype=bool)])
        versions = np.full(len(actions), -1, dtype=np.int32)
        known = np.concatenate([completion.policy_versions for completion in completions] or [versions[:0]])
        if actions.any() and not known.size:
            raise ValueError(
                f"environment {self._name}: its output has sampled tokens, but it did not sample with the engine it "
                "was given, so nobody knows which weights they come from"
            )
        if actions.any():
            # Where the function left sampled tokens out nobody knows which weights made which: the oldest for all.
            versions[actions] = known if len(known) == actions.sum() else known.min()
        segment = Segment(
            token_ids=np.asarray([*prompt, *output.token_ids], dtype=np.int64),
            action_mask=actions,
            loss_mask=actions.copy(),
            logprobs=np.concatenate([np.zeros(len(prompt), np.float32), np.asarray(output.log_probs, np.float32)]),
            policy_versions=versions,
        )
        cut = len(actions) > max_length
        kept = _cut(segment, max_length) if cut else segment
        return Trajectory((kept,), cut or output.finish_reason == "length", facts=output.facts)


def _cut(segment: Segment, length: int) -> Segment:
    return Segment(
        token_ids=segment.token_ids[:length],
        action_mask=segment.action_mask[:length],
        loss_mask=segment.loss_mask[:length],
        logprobs=segment.logprobs[:length],
        policy_versions=segment.policy_versions[:length],
    )


class _Engine:
    """The engine as a generate function calls it."""

    def __init__(self, engine: LLMEngine, sampling: SamplingParams, max_length: int) -> None:
        self._engine = engine
        self._sampling = sampling
        self._max_length = max_length
        self.completions: list[Completion] = []

    async def __call__(self, token_ids: Sequence[int], **changes: Any) -> Completion:
        sampling = dataclasses.replace(self._sampling, **changes)
        room = self._max_length - len(token_ids)
        limit = room if sampling.max_tokens is None else min(sampling.max_tokens, room)
        completion = await self._engine.generate(token_ids, dataclasses.replace(sampling, max_tokens=limit))
        if completion.finish_reason == "aborted":
            raise RuntimeError("generation aborted")
        self.completions.append(completion)
        return completion
