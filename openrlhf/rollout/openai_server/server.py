"""The HTTP side: an aiohttp server on this machine's loopback, on the engine's own event loop.

GET  /health
GET  /v1/models
POST /tokenize
POST /v1/chat/completions          the session is the body's `session_id`, or none is kept
POST /sessions/ID/v1/chat/completions     an open session is in the address, for clients that cannot add a field
"""

import json
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from aiohttp import web
from pydantic import ValidationError

from openrlhf.env.episode.seeds import turn_seed
from openrlhf.interfaces import LLMEngine
from openrlhf.rollout.agent_sampling import own_copy
from openrlhf.rollout.openai_server.messages import ToolCall
from openrlhf.rollout.openai_server.refusal import TOO_LONG, refusal_of
from openrlhf.rollout.openai_server.session import Session, SessionClosed, Sessions
from openrlhf.rollout.openai_server.template import ChatTemplate
from openrlhf.rollout.openai_server.tool_calls import one_call_of, split_tool_calls
from openrlhf.rollout.openai_server.wire import ChatRequest, Reply, TokenizeRequest, tools_key
from openrlhf.rollout.seeds import named_seed
from openrlhf.types import Completion, SamplingParams

HOST = "127.0.0.1"
MAX_BODY = 64 * 2**20  # bytes
_CODES = {404: "unknown_url", 405: "method_not_allowed", 413: "request_too_large"}


class AgentServer:
    """Serves one engine. `sessions` are opened and read by whoever runs the agents."""

    def __init__(
        self, engine: LLMEngine, tokenizer: Any, max_length: int, model: str = "policy", idle_s: float = 3600.0
    ) -> None:
        """ValueError for a tokenizer without a chat template that can be used."""
        self.sessions = Sessions(idle_s)
        self.template = ChatTemplate(tokenizer)
        self._engine = engine
        self._max_length = max_length
        self._model = model
        self._runner: web.AppRunner | None = None
        self._port = 0

    async def start(self) -> None:
        app = web.Application(client_max_size=MAX_BODY, middlewares=[_json_errors])
        app.router.add_get("/health", self._health)
        for prefix in ("", "/sessions/{session_id}"):
            app.router.add_get(f"{prefix}/v1/models", self._models)
            app.router.add_post(f"{prefix}/v1/chat/completions", self._chat)
        app.router.add_post("/tokenize", self._tokenize)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, 0)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self._port}"

    def base_url(self, session_id: str) -> str:
        """What an OpenAI client takes as its `base_url` to talk inside one session."""
        return f"{self.address}/sessions/{session_id}/v1"

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "sessions": len(self.sessions)})

    async def _models(self, _: web.Request) -> web.Response:
        model = {"id": self._model, "object": "model", "created": 0, "owned_by": "openrlhf"}
        return web.json_response({"object": "list", "data": [model | {"max_model_len": self._max_length}]})

    async def _tokenize(self, request: web.Request) -> web.Response:
        asked = TokenizeRequest.model_validate(await _json(request))
        template = self.template.with_tools(asked.tools or ())
        text = asked.prompt
        if asked.messages is not None:
            text = template.render(asked.messages, open_answer=asked.add_generation_prompt)
        ids = template.ids(text or "")
        return web.json_response({"tokens": ids, "count": len(ids), "max_model_len": self._max_length})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        asked = ChatRequest.model_validate(await _json(request))
        session = self._session(request.match_info.get("session_id"), asked.session_id)
        async with session.lock:
            reply = await self._answer(session, asked)
        if not asked.stream:
            return web.json_response(reply.body())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await response.prepare(request)
        for event in reply.events(bool(asked.stream_options and asked.stream_options.include_usage)):
            await response.write(event.encode())
        await response.write_eof()
        return response

    def _session(self, addressed: str | None, named: str | None) -> Session:
        """A session in the address must be open; one that the body names is made where it is missing."""
        if addressed is not None:
            return self.sessions.use(addressed)
        return self._new_session() if named is None else self.sessions.use(named, self._new_session)

    def _new_session(self) -> Session:
        return Session(SamplingParams(), self._max_length)

    async def _answer(self, session: Session, asked: ChatRequest) -> Reply:
        """Sample one answer; the conversations of the session change only where there is one."""
        if session.closed:
            raise SessionClosed("the session was closed while this request waited: its sample is finished")
        template = self.template.with_tools(asked.offered_tools)
        trace, added = session.trace_for(template, asked.messages, tools_key(asked.offered_tools))
        ids = [*trace.tokens.ids, *added]
        if len(ids) >= session.max_length:
            session.truncated = True
            session.outgrown = refusal_of(len(ids), session.max_length)
            raise _Refused(session.outgrown, TOO_LONG)
        sampling = _sampling(session, asked, session.max_length - len(ids))
        try:
            completion = await self._engine.generate(ids, sampling)
        except ValueError:  # the engine does not take these parameters, and is none the worse for it
            raise
        except Exception as error:  # ends the run, whatever the agent makes of the status that it gets
            session.failure = error
            raise
        reply = self._reply(template, asked, ids, completion, sampling)
        session.commit(trace, asked.messages, added)
        trace.answer(completion, reply.message())
        session.num_answers += 1
        session.other_distribution = session.other_distribution or _other_distribution(session.sampling, sampling)
        session.truncated = completion.finish_reason == "length"
        session.aborted = session.aborted or completion.finish_reason == "aborted"
        return reply

    def _reply(
        self,
        template: ChatTemplate,
        asked: ChatRequest,
        ids: list[int],
        completion: Completion,
        sampling: SamplingParams,
    ) -> Reply:
        sampled = completion.token_ids.tolist()
        shown = sampled[:-1] if sampled[-1:] and sampled[-1] in sampling.stop_token_ids else sampled
        content, calls = _before_stop(template.text(shown, special=False), sampling.stop), list[ToolCall]()
        if asked.offered_tools:  # some tokenizers mark <tool_call> as a special token, which text leaves out
            rest, calls = split_tool_calls(_before_stop(template.text(shown, special=True), sampling.stop))
            content = template.without_special(rest).rstrip() if calls else content
        return Reply(
            id=f"chatcmpl-{uuid.uuid4().hex[:24]}",
            model=asked.model or self._model,
            content=content,
            tool_calls=calls,
            prompt_ids=ids,
            completion=completion,
            token_texts=[template.text([token], special=True) for token in sampled] if asked.logprobs else [],
            with_logprobs=bool(asked.logprobs),
        )


def _sampling(session: Session, asked: ChatRequest, room: int) -> SamplingParams:
    """The session's parameters with what the request names, and at most `room` tokens."""
    base = own_copy(session.sampling)
    wanted = asked.max_completion_tokens or asked.max_tokens or base.max_tokens
    most = room if wanted is None else min(wanted, room)
    return replace(
        base,
        max_tokens=most,
        min_tokens=min(base.min_tokens if asked.min_tokens is None else asked.min_tokens, most),
        temperature=base.temperature if asked.temperature is None else asked.temperature,
        top_p=base.top_p if asked.top_p is None else asked.top_p,
        stop=asked.stops or base.stop,
        stop_token_ids=tuple(asked.stop_token_ids or base.stop_token_ids),
        structured_outputs=_structure(asked) or base.structured_outputs,
        seed=_seed(session, asked.seed),
    )


def _seed(session: Session, asked: int | None) -> int | None:
    """The seed of this answer. One that the request names is the same in all samples of a prompt, so it is mixed with
    what tells the sample apart, and, as the sample's own, with the number of the answer."""
    own = session.sampling.seed
    if asked is None:
        return turn_seed(own, session.num_answers)
    if not session.sample:
        return asked
    return named_seed(session.sample if own is None else own, asked, session.num_answers)


def _other_distribution(own: SamplingParams, asked: SamplingParams) -> str:
    """How the request samples from another distribution than the sample's own; empty: it does not.

    A form that binds an answer is not meant: whoever asks for it knows that.
    """
    pairs = (("temperature", own.temperature, asked.temperature), ("top_p", own.top_p, asked.top_p))
    return " and ".join(f"{name} {theirs:g} instead of {ours:g}" for name, ours, theirs in pairs if theirs != ours)


def _before_stop(text: str, stops: Sequence[str]) -> str:
    """The engine ends at the first stop string, which may stand in the middle of the last token."""
    return text[: min((text.index(stop) for stop in stops if stop in text), default=len(text))]


def _structure(asked: ChatRequest) -> dict[str, Any] | None:
    """What binds the sampling of this answer: a demanded tool call, or a form of its text; None or empty: nothing."""
    if asked.demanded_tools:
        return one_call_of(asked.demanded_tools)
    form = None if asked.response_format is None else asked.response_format.structured_outputs
    return form or asked.structured_outputs


class _Refused(ValueError):
    """A request that cannot be served, with OpenAI's code for it."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


async def _json(request: web.Request) -> Any:
    try:
        body = await request.json()
        json.dumps(body, ensure_ascii=False).encode()  # what tokenizer and engine raise would pass for their own fault
        return body
    except UnicodeEncodeError as error:
        before = error.object[max(0, error.start - 20) : error.start]
        raise ValueError(f"half of a surrogate pair follows {before!r}: no text has one; leave it out") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the body is no JSON: {error}") from error
    except LookupError as error:  # the charset of the content type
        raise ValueError(f"the body cannot be decoded: {error}") from error
    except web.RequestPayloadError as error:  # not in the content encoding that its header names
        raise ValueError(f"the body cannot be read: {' '.join(str(error).split())}") from error


@web.middleware
async def _json_errors(request: web.Request, handler: Any) -> web.StreamResponse:
    """Errors in OpenAI's form: the caller's with status 400, 404, 405 or 413, the engine's with 503."""
    try:
        return await handler(request)
    except web.HTTPException as error:  # what aiohttp refuses by itself
        # Without the address: where a session's stands in an error, it is taken for a refusal of the session.
        refusal = _error(error.status, error.reason, _CODES.get(error.status, "invalid_request_error"))
        if "Allow" in error.headers:
            refusal.headers["Allow"] = error.headers["Allow"]
        return refusal
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return _error(400, f"{where}: {first['msg']}" if where else str(first["msg"]), "invalid_request_error")
    except SessionClosed as error:
        return _error(404, str(error), "session_not_found")
    except ValueError as error:
        return _error(400, str(error), error.code if isinstance(error, _Refused) else "invalid_request_error")
    except Exception as error:  # what the engine raised: EngineDead, GenerationError, or what it did not foresee
        return _error(503, f"{type(error).__name__}: {error}", "engine_error")


def _error(status: int, message: str, code: str) -> web.Response:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return web.json_response({"error": {"message": message, "type": kind, "code": code, "param": None}}, status=status)
