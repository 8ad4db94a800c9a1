"""One vLLM engine: token ids in, token ids and the logprobs they were sampled with out.

It runs in the process that constructs it; `cluster/` wraps it in an actor. vLLM spawns its core process by itself.

    engine = VllmEngine(args)
    await engine.start()
    completion = await engine.generate(prompt_token_ids, sampling_params)
    await engine.receive_weights(manifest)

A sync waits until the requests in flight have finished and holds back new ones until it is done, so that one version
samples a whole completion. With `args.keep_in_flight` (partial rollouts) it pauses them instead; they go on with the
new weights over the keys and values of the old ones. `completion.policy_versions` says which weights sampled a token.
"""

import asyncio
import gc
import os
from collections.abc import Coroutine, Sequence
from dataclasses import asdict, dataclass, field
from tempfile import TemporaryDirectory
from typing import Any

from vllm import SamplingParams as VllmSamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.exceptions import VLLMClientError
from vllm.outputs import RequestOutput
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError
from vllm.v1.engine.output_processor import RequestOutputCollector

from openrlhf.imports import HeavyImports
from openrlhf.interfaces import ImageTokens
from openrlhf.rollout.clock import BusyClock
from openrlhf.rollout.errors import EngineDead
from openrlhf.rollout.vllm.args import VllmEngineArgs
from openrlhf.rollout.vllm.calls import T, while_alive
from openrlhf.rollout.vllm.core import quick_core
from openrlhf.rollout.vllm.pictures import Pictures
from openrlhf.rollout.vllm.requests import (
    EnginePrompt,
    check_prompt,
    to_completion,
    to_engine_prompt,
    to_vllm_prompt,
    to_vllm_sampling,
)
from openrlhf.types import Completion, EncodedImage, SamplingParams, TransferManifest

RECEIVER = "openrlhf.rollout.vllm.receiver.WeightReceiver"
SPLIT_EXECUTOR = "openrlhf.rollout.vllm.executor.SplitExecutor"


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Counters since the engine started."""

    requests: int  # finished
    prompt_tokens: int  # of the finished requests
    tokens_generated: int
    busy_seconds: float  # wall time with at least one request in flight
    in_flight: int
    policy_version: int


@dataclass(slots=True)
class _HeldRequest:
    """A request that waits for `release()`."""

    prompt: EnginePrompt
    params: VllmSamplingParams
    started: "asyncio.Future[RequestOutputCollector]" = field(default_factory=asyncio.Future)

    def order(self) -> tuple[Any, ...]:
        """The seed first: it differs between the samples of one prompt."""
        return (-1 if self.params.seed is None else self.params.seed, *self.prompt.order())


class VllmEngine:
    """Implements interfaces.LLMEngine and receives weights. Not thread safe: use it from one event loop."""

    def __init__(self, args: VllmEngineArgs) -> None:
        self._args = args
        self.keep_in_flight = args.keep_in_flight
        self._llm: AsyncLLM | None = None
        self._sockets = TemporaryDirectory(prefix="vllm-", ignore_cleanup_errors=True)  # vLLM removes none of its own
        self._cause_of_death: str | None = None
        self._version = 0
        self._next_request = 0
        self._held: list[_HeldRequest] | None = None  # None: requests start at once
        self._held_changed = asyncio.Event()
        self._open = asyncio.Event()  # clear while weights change
        self._open.set()
        self._idle = asyncio.Event()  # set while no request is in flight
        self._idle.set()
        self._control = asyncio.Lock()  # one of release, receive, sleep, wake at a time
        self._clock = BusyClock()
        self._pictures = Pictures()
        self._finished = 0
        self._prompt_tokens = 0
        self._tokens_generated = 0

    async def start(self) -> None:
        """Load the model; blocks the event loop for the seconds that takes."""
        os.environ["VLLM_RPC_BASE_PATH"] = self._sockets.name
        with HeavyImports(), quick_core():
            self._llm = AsyncLLM.from_engine_args(engine_args(self._args))
        await self._llm.collective_rpc("end_with_parent")
        await self._llm.update_weight_version(str(self._version))
        gc.collect()
        gc.freeze()  # what is there now stays: without this every collection would go over all of vLLM's modules

    @property
    def policy_version(self) -> int:
        return self._version

    @property
    def image_tokens(self) -> ImageTokens | None:
        return self._args.image_tokens

    async def generate(
        self,
        prompt_token_ids: Sequence[int],
        sampling_params: SamplingParams,
        images: Sequence[EncodedImage] | None = None,
    ) -> Completion:
        """Sample one completion. The ids hold all tokens of the images (`image_tokens.expand`), in their order.

        Logprobs are those of the distribution that was sampled from: after temperature, top-p and logit bias (at
        temperature 0: of the unscaled model). A sampled stop token is part of the completion. ValueError for
        parameters that the engine does not take; EngineDead if it is or becomes unusable.
        """
        self._live()
        shown, vision = tuple(images or ()), self.image_tokens
        params = to_vllm_sampling(sampling_params, self._args.stop_token_ids, vision.banned_ids if vision else ())
        prompt = to_engine_prompt(prompt_token_ids, shown, vision)
        if self._held is not None:
            collector = await self._wait_for_release(_HeldRequest(prompt, params))
        else:
            while not self._open.is_set():
                await self._open.wait()
            collector = await self._submit(prompt, params)
        try:
            output = await self._collect(collector)
        finally:
            self._leave()
        if shown:
            check_prompt(output, prompt_token_ids, self._args.name)
        completion = to_completion(output, self._args.name)
        self._finished += 1
        self._prompt_tokens += len(prompt_token_ids)
        self._tokens_generated += len(completion.token_ids)
        return completion

    def hold(self) -> None:
        """Queue every following request until `release()`, so that a step's batches form the same way each time."""
        self._live()
        if self._held is None:
            self._held = []

    async def release(self, expected: int | None = None) -> None:
        """Start the held requests together, in an order that depends on their seeds and prompts only.

        The core takes them all before its first step, so equal requests with equal seeds give equal tokens and
        logprobs, bit for bit, whatever the order they were asked in. `expected`: first wait until that many are held.
        """
        while self._held is not None and expected is not None and len(self._held) < expected:
            self._held_changed.clear()
            await self._held_changed.wait()
        async with self._control:
            held, self._held = self._held or [], None
            self._open.clear()  # a request that comes now follows the held ones
            try:
                await self._start_together(sorted(held, key=_HeldRequest.order))
            finally:
                self._open.set()
                for request in held:
                    if not request.started.done():
                        request.started.set_exception(EngineDead(self._obituary()))

    async def receive_weights(self, manifest: TransferManifest) -> None:
        """Load the weights of a transfer; tokens sampled from here on carry its version.

        Waits for the requests in flight and empties the prefix, multi-modal and encoder caches, or pauses the requests
        where they are kept; then loads, and lets requests go on. Any failure leaves weights of unknown state, so the
        engine is dead afterwards and EngineDead names the cause.
        """
        async with self._control:
            self._live()
            self._open.clear()
            try:
                await asyncio.wait_for(self._receive(manifest), self._args.sync_timeout)
            except (Exception, asyncio.CancelledError) as error:
                self._die(f"weight sync to version {manifest.version} failed: {type(error).__name__}: {error}")
                raise EngineDead(self._obituary()) from error
            finally:
                self._open.set()

    async def sleep(self, level: int = 1) -> None:
        """Free GPU memory: level 1 moves the weights to CPU memory, level 2 drops them; the KV cache goes in both."""
        async with self._control:
            await self._idle.wait()
            llm = self._live()
            await self._control_call(llm, llm.sleep(level=level))

    async def wake(self, tags: Sequence[str] | None = None) -> None:
        """Undo `sleep`, or the part named by `tags` ("weights" before a sync, "kv_cache" after it)."""
        async with self._control:
            llm = self._live()
            await self._control_call(llm, llm.wake_up(tags=None if tags is None else list(tags)))

    def stats(self) -> EngineStats:
        return EngineStats(
            requests=self._finished,
            prompt_tokens=self._prompt_tokens,
            tokens_generated=self._tokens_generated,
            busy_seconds=self._clock.seconds,
            in_flight=self._clock.active,
            policy_version=self._version,
        )

    def shutdown(self) -> None:
        """End the core process; requests in flight fail with EngineDead."""
        if self._llm is not None:
            self._die("it was shut down")
            self._llm.shutdown()
            self._llm = None
            self._sockets.cleanup()
            gc.unfreeze()  # else the interpreter ends with warnings of leaked objects

    async def _receive(self, manifest: TransferManifest) -> None:
        llm = self._live()
        if not self.keep_in_flight:
            await self._idle.wait()
        await self._control_call(llm, self._take_weights(llm, manifest))
        self._version = manifest.version

    async def _take_weights(self, llm: AsyncLLM, manifest: TransferManifest) -> None:
        if self.keep_in_flight:
            await llm.pause_generation(mode="keep", clear_cache=False)
        else:
            await llm.pause_generation(mode="wait", clear_cache=True)
        await llm.collective_rpc("receive_policy_weights", args=(asdict(manifest), self._args.engine_index))
        await llm.update_weight_version(str(manifest.version))
        await llm.resume_generation()

    async def _start_together(self, requests: Sequence[_HeldRequest]) -> None:
        """Queue the requests in the paused core, then let it schedule them all at once."""
        await self._idle.wait()
        llm = self._live()
        await self._control_call(llm, llm.pause_generation(mode="keep", clear_cache=False))
        for request in requests:
            if request.started.cancelled():
                continue
            try:
                request.started.set_result(await self._submit(request.prompt, request.params))
            except Exception as error:  # belongs to whoever asked for this request
                request.started.set_exception(error)
        await self._control_call(llm, llm.resume_generation())

    async def _control_call(self, llm: AsyncLLM, call: Coroutine[Any, Any, T]) -> T:
        """The answer of the core; EngineDead if it dies of it, or has died before."""
        try:
            return await while_alive(llm, call)
        except EngineDeadError as error:
            raise self._died(error) from error

    async def _wait_for_release(self, request: _HeldRequest) -> RequestOutputCollector:
        assert self._held is not None
        self._held.append(request)
        self._held_changed.set()
        try:
            return await request.started
        except asyncio.CancelledError:
            if request.started.done() and not request.started.cancelled() and not request.started.exception():
                await self._abort(request.started.result())
                self._leave()
            raise

    async def _submit(self, prompt: EnginePrompt, params: VllmSamplingParams) -> RequestOutputCollector:
        """Hand a request to the core; it counts as in flight until `_leave()`."""
        llm = self._live()
        ready = to_vllm_prompt(prompt, self._pictures)
        self._clock.start()
        self._idle.clear()
        self._next_request += 1
        try:
            return await llm.add_request(str(self._next_request), ready, params)
        except EngineDeadError as error:
            self._leave()
            raise self._died(error) from error
        except VLLMClientError as error:
            self._leave()
            raise ValueError(f"{self._args.name} does not take these parameters: {error}") from error
        except BaseException:
            self._leave()
            raise

    async def _collect(self, collector: RequestOutputCollector) -> RequestOutput:
        """Wait for the finished output; abort the request if whoever waits is cancelled."""
        try:
            while True:
                output = await collector.get()
                if isinstance(output, RequestOutput) and output.finished:
                    return output
        except EngineDeadError as error:
            raise self._died(error) from error
        except asyncio.CancelledError:
            await self._abort(collector)
            raise
        finally:
            collector.close()

    async def _abort(self, collector: RequestOutputCollector) -> None:
        if self._llm is not None and self._cause_of_death is None:
            await self._llm.abort(collector.request_id, internal=True)

    def _leave(self) -> None:
        self._clock.stop()
        if self._clock.active == 0:
            self._idle.set()

    def _live(self) -> AsyncLLM:
        """Return the engine, or raise EngineDead."""
        if self._cause_of_death is not None:
            raise EngineDead(self._obituary())
        if self._llm is None:
            raise RuntimeError(f"{self._args.name} has not been started")
        return self._llm

    def _died(self, error: BaseException) -> EngineDead:
        self._die(f"its process died: {error}")
        return EngineDead(self._obituary())

    def _die(self, cause: str) -> None:
        self._cause_of_death = self._cause_of_death or cause

    def _obituary(self) -> str:
        cause = self._cause_of_death or "the held requests could not be started"
        return f"{self._args.name} is dead: {cause}; start a fresh engine and sync it"


def engine_args(args: VllmEngineArgs) -> AsyncEngineArgs:
    """Translate our settings into vLLM's."""
    vllm = args.vllm
    on_cpu = args.device == "cpu"
    parts = vllm.tensor_parallel_size
    return AsyncEngineArgs(
        model=args.model_path,
        dtype=args.dtype,
        max_model_len=args.max_model_len,
        max_num_seqs=vllm.max_num_seqs,
        seed=args.seed,
        tensor_parallel_size=parts,
        distributed_executor_backend=SPLIT_EXECUTOR if on_cpu and parts > 1 else None,
        enable_prefix_caching=vllm.enable_prefix_caching,
        # A prompt that is taken in two parts is sampled from in between, and vLLM then turns the generator of a request
        # with a seed back: a CPU's cannot be turned back, and the core dies of it.
        enable_chunked_prefill=False if on_cpu else None,
        enforce_eager=vllm.enforce_eager or on_cpu,  # compiling costs a minute on CPU and gains nothing measurable
        enable_sleep_mode=vllm.enable_sleep and not on_cpu,
        gpu_memory_utilization=vllm.gpu_memory_utilization,
        kv_cache_memory_bytes=int(vllm.cpu_kv_cache_gb * 2**30) // parts if on_cpu else None,  # of each worker
        logprobs_mode="processed_logprobs",
        worker_extension_cls=RECEIVER,
        limit_mm_per_prompt={} if args.image_tokens is None else {"image": args.image_tokens.max_images, "video": 0},
        disable_log_stats=True,
        use_tqdm_on_load=False,
    )
