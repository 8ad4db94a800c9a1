"""A model that somebody serves: token ids in, text out, by an OpenAI-style /completions.

For evaluation only: a server tells the text that it sampled, so ids are tokenised anew unless it gives them (vLLM
does), and log-probabilities are left at 0. Nothing can be trained on that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import aiohttp
import numpy as np

from openrlhf.http_status import may_pass
from openrlhf.rollout.errors import GenerationError
from openrlhf.types import Completion, FinishReason, SamplingParams

TRIES = 5
MAX_PAUSE_S = 30.0
_REFUSALS = (401, 403, 404, 405)  # the next request would end the same way
_FINISHED: dict[Any, FinishReason] = {"stop": "stop", "length": "length", "abort": "aborted"}


class EndpointDown(Exception):
    """A server did not answer a request, however often it was asked. One line; names the address."""


class EndpointEngine:
    """Implements interfaces.LLMEngine for one event loop."""

    def __init__(
        self,
        url: str,
        tokenizer: Any,
        *,
        model: str | None = None,
        key: str | None = None,
        max_concurrent: int = 64,
        timeout: float = 600.0,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`url`: with its version, http://host:8000/v1. `model`: None: the first that the server lists."""
        self._url = url.rstrip("/")
        self._tokenizer = tokenizer
        self._model = model
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._places = asyncio.Semaphore(max_concurrent)
        self._pause = pause
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> str:
        """Ask for the model's name; GenerationError where there is none. Returns it."""
        if self._model is None:
            answer = await self._ask("GET", "/models", None)
            try:
                self._model = str(answer["data"][0]["id"])
            except (LookupError, TypeError) as error:
                what = f"{self._url}/models lists no model; name it with --endpoint.model"
                raise GenerationError(what) from error
        return self._model

    @property
    def image_tokens(self) -> None:
        return None

    async def generate(
        self, prompt_token_ids: Sequence[int], sampling_params: SamplingParams, images: Sequence[Any] | None = None
    ) -> Completion:
        """Sample one completion.

        Raises:
            EndpointDown: no answer after several tries; another request may have one.
            GenerationError: the server refuses every request of this kind, or answers something else.
        """
        if images:
            raise GenerationError(f"{self._url}: a served endpoint is asked without images")
        async with self._places:
            answer = await self._ask("POST", "/completions", self._body(prompt_token_ids, sampling_params))
        try:
            (choice,) = answer["choices"]
            return self._completion(choice, sampling_params)
        except (LookupError, TypeError, ValueError) as error:
            raise GenerationError(f"{self._url}/completions: an answer without one choice: {error}") from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _body(self, ids: Sequence[int], sampling: SamplingParams) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "prompt": list(ids),
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "n": 1,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        if sampling.stop:
            # The text then holds what it stopped at, as an environment needs it: by vLLM's name, and by SGLang's.
            keep = sampling.include_stop_str_in_output
            body |= {"stop": list(sampling.stop), "include_stop_str_in_output": keep, "no_stop_trim": keep}
        if sampling.stop_token_ids:
            body["stop_token_ids"] = list(sampling.stop_token_ids)
        if sampling.logit_bias:
            body["logit_bias"] = {str(token): bias for token, bias in sampling.logit_bias.items()}
        if sampling.structured_outputs:
            body["structured_outputs"] = dict(sampling.structured_outputs)
        return body | {"return_token_ids": True}

    def _completion(self, choice: Mapping[str, Any], sampling: SamplingParams) -> Completion:
        ids = choice.get("token_ids")
        if ids is None:
            ids = self._tokenizer(_with_stop(choice, sampling), add_special_tokens=False)["input_ids"]
        finished = _FINISHED.get(choice.get("finish_reason"))
        if finished is None:
            raise ValueError(f"finish_reason {choice.get('finish_reason')!r}")
        token_ids = np.asarray(ids, dtype=np.int64)
        return Completion(token_ids, np.zeros(len(ids), np.float32), finished, np.zeros(len(ids), np.int32))

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        if self._session is None:
            self._session = aiohttp.ClientSession(headers=self._headers, timeout=self._timeout)
        url, reason = self._url + path, ""
        for attempt in range(TRIES):
            if attempt:
                await self._pause(min(2.0 ** (attempt - 1), MAX_PAUSE_S))
            try:
                async with self._session.request(method, url, json=body) as response:
                    if response.status == 200:
                        return await response.json(content_type=None)
                    reason = f"status {response.status}: {(await response.text())[:200]}"
                    if response.status in _REFUSALS:
                        raise GenerationError(f"{url}: {reason}")
                    if not may_pass(response.status):
                        raise EndpointDown(f"{url}: {reason}")
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                reason = f"{type(error).__name__}: {error}"
        raise EndpointDown(f"{url}: {TRIES} tries, the last: {reason}")


def _with_stop(choice: Mapping[str, Any], sampling: SamplingParams) -> str:
    """The text with the stop text that ended it, which a server may have cut off in spite of being asked not to.

    vLLM calls it `stop_reason`, SGLang `matched_stop`; either may be a token's id instead.
    """
    text, stop = str(choice["text"]), choice.get("stop_reason") or choice.get("matched_stop")
    kept = sampling.stop if sampling.include_stop_str_in_output else ()
    return f"{text}{stop}" if stop in kept and not text.endswith(str(stop)) else text
