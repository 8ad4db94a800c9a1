"""The wire, as the official `openai` client and a plain HTTP client see it."""

import asyncio
import json
import re

import aiohttp
import openai
import pytest

from openrlhf.rollout.errors import EngineDead
from tests.agent_fakes import ChatTokenizer, quick_client
from tests.fakes import completion

HELLO = [{"role": "user", "content": "hello"}]
ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
CALL = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'


async def test_an_answer_has_text_usage_and_the_exact_ids(talk):
    async with talk(lambda call: completion("hi")) as t:
        answer = await t.say(HELLO)
    assert answer.choices[0].message.content == "hi"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].logprobs is None
    prompt = "<user>hello<eos>\n<assistant>"
    assert t.prompts() == [prompt]
    ids = t.engine.calls[0].prompt_token_ids
    assert answer.model_extra["token_ids"] == {"prompt": ids, "completion": [ord("h"), ord("i"), 0]}
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (len(ids), 3)


async def test_parameters_reach_the_engine_over_the_sessions_own(talk):
    async with talk(lambda call: completion("hi")) as t:
        await t.say(HELLO)
        await t.say(HELLO, temperature=0, top_p=0.5, max_tokens=3, stop=["END"], seed=9)
        await t.say(HELLO, max_completion_tokens=9999, stop="END")
    first, second, third = (call.sampling for call in t.engine.calls)
    assert (first.temperature, first.top_p, first.max_tokens, first.stop, first.seed) == (0.7, 1.0, 50, (), None)
    assert (second.temperature, second.top_p, second.max_tokens) == (0, 0.5, 3)
    assert second.stop == ("END",)
    assert second.seed == 9  # a session of no sample: nothing to mix it with
    assert third.max_tokens == 400 - len(t.engine.calls[2].prompt_token_ids)
    assert third.stop == ("END",)
    assert (t.session.sampling.temperature, t.session.sampling.max_tokens) == (0.7, 50)


async def test_vllms_own_parameters_reach_the_engine(talk):
    ids, choice = [7, ord("!")], {"choice": ["hi!"]}
    async with talk(lambda call: completion("hi!", eos=False, finish_reason="stop")) as t:
        own = {"min_tokens": 3, "stop_token_ids": ids, "structured_outputs": choice}
        answer = await t.say(HELLO, extra_body=own)
        await t.say(HELLO, max_tokens=2, extra_body={"min_tokens": 3})
        await t.say(HELLO)
    first, second, third = (call.sampling for call in t.engine.calls)
    assert (first.min_tokens, first.stop_token_ids, first.structured_outputs) == (3, tuple(ids), choice)
    assert answer.choices[0].message.content == "hi"  # the token that it stopped at is not shown, as with `stop`
    assert second.min_tokens == 2  # not more than it may have
    assert (third.min_tokens, third.stop_token_ids, third.structured_outputs) == (0, (), None)


async def test_parameters_that_the_engine_does_not_take_are_the_callers_fault(talk):
    async with talk(lambda call: ValueError("vLLM engine 0: stop_token_ids -1")) as t:
        with pytest.raises(openai.BadRequestError, match="stop_token_ids -1"):
            await t.say(HELLO, extra_body={"stop_token_ids": [-1]})
    assert t.session.failure is None
    assert t.session.traces == []


@pytest.mark.parametrize("text", ["42END", "42END\n"])  # the last token may hold more than the stop
async def test_the_stop_string_is_sampled_but_not_shown(talk, text):
    async with talk(lambda call: completion(text, eos=False, finish_reason="stop")) as t:
        answer = await t.say(HELLO, stop=["END"])
    assert answer.choices[0].message.content == "42"
    assert len(answer.model_extra["token_ids"]["completion"]) == len(text)


async def test_a_length_end_is_said_and_truncates(talk):
    async with talk(lambda call: completion("hi", eos=False)) as t:
        answer = await t.say(HELLO)
    assert answer.choices[0].finish_reason == "length"
    assert t.session.truncated


async def test_logprobs_come_with_their_tokens(talk):
    async with talk(lambda call: completion("hi")) as t:
        answer = await t.say(HELLO, logprobs=True)
    tokens = answer.choices[0].logprobs.content
    assert [(token.token, token.logprob) for token in tokens] == [("h", -0.5), ("i", -1.0), ("<eos>", -1.5)]


async def test_a_demanded_call_binds_what_is_sampled(talk):
    other = {"type": "function", "function": {"name": "halve"}}
    async with talk(lambda call: completion(CALL)) as t:
        await t.say(HELLO, tools=[ADD, other], tool_choice="required")
        await t.say(HELLO, tools=[ADD, other], tool_choice={"type": "function", "function": {"name": "halve"}})
        await t.say(HELLO, tools=[ADD, other])
    required, named, free = (call.sampling.structured_outputs for call in t.engine.calls)
    assert free is None
    assert t.session.sampling.structured_outputs is None
    one, two = (
        {
            "type": "object",
            "properties": {"name": {"const": name}, "arguments": arguments},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for name, arguments in (("add", ADD["function"]["parameters"]), ("halve", {"type": "object"}))
    )
    for structure, schema in ((required, {"anyOf": [one, two]}), (named, two)):
        assert json.loads(structure["structural_tag"])["format"] == {
            "type": "tag",
            "begin": "<tool_call>",
            "content": {"type": "json_schema", "json_schema": schema},
            "end": "</tool_call>",
        }


async def test_a_response_format_binds_what_is_sampled(talk):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    named = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}
    async with talk(lambda call: completion("{}")) as t:
        for response_format in (named, {"type": "json_object"}, {"type": "text"}):
            await t.say(HELLO, response_format=response_format)
    assert [call.sampling.structured_outputs for call in t.engine.calls] == [
        {"json": schema},
        {"json_object": True},
        None,
    ]


async def test_tool_calls_are_taken_out_of_the_text(talk):
    async with talk(lambda call: completion("I add. " + CALL)) as t:
        answer = await t.say(HELLO, tools=[ADD])
        plain = await t.say(HELLO)
        none = await t.say(HELLO, tools=[ADD], tool_choice="none")
    (call,) = answer.choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("add", '{"a": 1, "b": 2}')
    assert answer.choices[0].message.content == "I add."
    assert answer.choices[0].finish_reason == "tool_calls"
    assert plain.choices[0].message.content == "I add. " + CALL
    assert none.choices[0].message.tool_calls is None
    assert t.prompts()[0].startswith("[add]<user>")
    assert t.prompts()[2].startswith("<user>")


@pytest.mark.parametrize("text", ['<tool_call>{"name": "add"</tool_call>', '<tool_call>{"arguments": {}}</tool_call>'])
async def test_a_malformed_tool_call_stays_text(talk, text):
    async with talk(lambda call: completion(text)) as t:
        answer = await t.say(HELLO, tools=[ADD])
    assert answer.choices[0].message.content == text
    assert answer.choices[0].message.tool_calls is None


@pytest.mark.parametrize("tools", [None, [ADD]])
async def test_streaming_says_the_same(talk, tools):
    async with talk(lambda call: completion("I add. " + CALL if tools else "hi")) as t:
        options = {"tools": tools} if tools else {}
        stream = await t.say(HELLO, stream=True, stream_options={"include_usage": True}, **options)
        chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == ("I add." if tools else "hi")
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    assert [call.function.name for call in calls] == (["add"] if tools else [])
    assert chunks[-2].choices[0].finish_reason == ("tool_calls" if tools else "stop")
    assert chunks[-1].usage.prompt_tokens == len(t.engine.calls[0].prompt_token_ids)
    assert t.session.segments()[0].num_actions == len(t.session.traces[0].tokens) - len(
        t.engine.calls[0].prompt_token_ids
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 2}, "n: Input should be 1"),
        ({"presence_penalty": 0.5}, "presence_penalty is not supported"),
        ({"logprobs": True, "top_logprobs": 3}, "top_logprobs is not supported"),
        ({"response_format": {"type": "json_schema"}}, "response_format: Value error, a schema belongs to the type"),
        (
            {"response_format": {"type": "json_object"}, "tools": [ADD], "tool_choice": "required"},
            "an answer cannot be a tool call and have a response_format",
        ),
        ({"tool_choice": "required"}, "tool_choice is required, but there are no tools"),
        (
            {"tools": [ADD], "tool_choice": {"type": "function", "function": {"name": "subtract"}}},
            "tool_choice names 'subtract', which is not among the tools",
        ),
        ({"extra_body": {"top_k": 5}}, "top_k is not supported"),
        ({"temperature": -1}, "temperature: Input should be greater than or equal to 0"),
    ],
)
async def test_what_is_not_offered_is_refused_by_name(talk, options, message):
    async with talk(lambda call: completion("hi")) as t:
        with pytest.raises(openai.BadRequestError) as refusal:
            await t.say(HELLO, **options)
    assert message in str(refusal.value)
    assert t.engine.calls == []


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "messages: List should have at least 1 item"),
        ([{"role": "king", "content": "hi"}], "messages.0.role"),
        ([{"role": "tool", "content": "3"}], "the chat template refused the messages: a tool speaks first"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "image_url are not supported, only text"),
        ([{"role": "user", "content": [{"type": "text", "text": None}]}], "content part has to be a string"),
        ([{"role": "user", "content": [{"type": "text"}]}], "content part has to be a string"),
    ],
)
async def test_bad_messages_are_refused(talk, messages, message):
    async with talk(lambda call: completion("hi")) as t:
        with pytest.raises(openai.BadRequestError) as refusal:
            await t.say(messages)
    assert message in str(refusal.value)


async def test_text_parts_are_joined(talk):
    async with talk(lambda call: completion("hi")) as t:
        await t.say([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])
    assert t.prompts() == ["<user>ab<eos>\n<assistant>"]


async def test_a_conversation_that_fills_the_context_is_refused_and_truncates(talk):
    async with talk(lambda call: completion("hi"), max_length=20) as t:
        with pytest.raises(openai.BadRequestError) as refusal:
            await t.say(HELLO)
    assert refusal.value.code == "context_length_exceeded"
    assert t.session.truncated
    assert t.session.segments() == ()


async def test_a_dead_engine_is_the_servers_fault_and_remembered(talk):
    async with talk(lambda call: EngineDead("vLLM engine 0 is dead")) as t:
        with pytest.raises(openai.InternalServerError, match="vLLM engine 0 is dead"):
            await t.say(HELLO)
    assert isinstance(t.session.failure, EngineDead)
    assert t.session.traces == []


async def test_the_other_endpoints(talk):
    async with talk(lambda call: completion("hi")) as t, aiohttp.ClientSession() as http:
        models = await t.client.models.list()
        assert [model.id for model in models.data] == ["policy"]
        async with http.get(f"{t.server.address}/health") as response:
            assert (await response.json())["status"] == "ok"
        async with http.post(f"{t.server.address}/tokenize", json={"messages": HELLO}) as response:
            body = await response.json()
        assert body["count"] == len(body["tokens"])
        assert body["max_model_len"] == 400
        await t.say(HELLO)
        assert t.engine.calls[0].prompt_token_ids == body["tokens"]
        async with http.post(f"{t.server.address}/tokenize", json={"prompt": "xy"}) as response:
            assert (await response.json())["count"] == 1
        async with http.post(f"{t.server.address}/tokenize", json={}) as response:
            assert (response.status, (await response.json())["error"]["message"]) == (
                400,
                "Value error, give either messages or prompt",
            )
        async with http.post(f"{t.server.address}/v1/chat/completions", data=b"{") as response:
            assert response.status == 400


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"{", {}),
        (b"[" * 100_000, {}),
        (b"{}", {"Content-Type": "application/json; charset=bogus"}),
        (b"no gzip", {"Content-Encoding": "gzip"}),
    ],
)
async def test_a_body_that_cannot_be_read_is_the_callers_fault(talk, body, headers):
    async with talk(lambda call: completion("hi")) as t, aiohttp.ClientSession() as http:
        url = f"{t.server.address}/v1/chat/completions"
        async with http.post(url, data=body, headers=headers, skip_auto_headers=["Content-Type"]) as response:
            assert response.status == 400
            assert (await response.json())["error"]["code"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("POST", "/v1/completions", 404, "unknown_url"),
        ("POST", "/sessions/s/v1/completions", 404, "unknown_url"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
    ],
)
async def test_an_address_that_is_not_there_is_an_error_in_openais_form(talk, method, path, status, code):
    async with (
        talk(lambda call: completion("hi")) as t,
        aiohttp.ClientSession() as http,
        http.request(method, t.server.address + path) as response,
    ):
        assert response.status == status
        error = (await response.json())["error"]
        assert response.headers.get("Allow") == ("POST" if status == 405 else None)
    assert (error["type"], error["code"]) == ("invalid_request_error", code)
    assert "/sessions/" not in error["message"]


async def test_a_finished_samples_address_serves_nobody(talk):
    async with talk(lambda call: completion("hi")) as t:
        await t.say(HELLO)
        t.server.sessions.close("s")
        for base_url in (t.server.base_url("s"), t.server.base_url("never")):
            async with quick_client(base_url) as client:
                with pytest.raises(openai.NotFoundError, match="is not open") as refusal:
                    await client.chat.completions.create(model="policy", messages=HELLO)
        assert refusal.value.code == "session_not_found"
        async with quick_client(f"{t.server.address}/v1") as client:
            with pytest.raises(openai.NotFoundError, match="session 's' is not open"):
                await client.chat.completions.create(model="policy", messages=HELLO, extra_body={"session_id": "s"})
            await client.chat.completions.create(model="policy", messages=HELLO, extra_body={"session_id": "new"})
    assert len(t.engine.calls) == 2


async def test_a_request_that_waits_in_a_session_that_closes_is_not_sampled(talk):
    async with talk(lambda call: completion("hi")) as t:
        async with t.session.lock:
            waiting = asyncio.create_task(t.say(HELLO))
            while not t.session.used:  # noqa: ASYNC110  (it waits for the server, which has no event for it)
                await asyncio.sleep(0.01)
            t.server.sessions.close("s")
        with pytest.raises(openai.NotFoundError):
            await waiting
    assert t.engine.calls == []


async def test_calls_are_seen_where_their_tags_are_special_tokens(talk):
    class Tagging(ChatTokenizer):
        """`<tool_call>` and its end are special tokens, each of one id."""

        all_special_tokens = (*ChatTokenizer.all_special_tokens, "<tool_call>", "</tool_call>")

        def decode(self, token_ids, skip_special_tokens=False, clean_up_tokenization_spaces=None):
            text = super().decode(token_ids, skip_special_tokens)
            return re.sub("</?tool_call>", "", text) if skip_special_tokens else text

    said = iter([f"I add.<bos> {CALL}", f"I say {CALL[:-13]}"])
    async with talk(lambda call: completion(next(said)), tokenizer=Tagging()) as t:
        answer = await t.say(HELLO, tools=[ADD])
        broken = await t.say(HELLO, tools=[ADD])
    message = answer.choices[0].message
    assert [call.function.name for call in message.tool_calls] == ["add"]
    assert message.content == "I add."
    assert broken.choices[0].message.content.startswith('I say {"name": "add"')
    assert broken.choices[0].message.tool_calls is None


async def test_an_answer_whose_json_is_too_deep_is_text_and_nothing_is_lost(talk):
    deep = '<tool_call>{"name": "add", "arguments": {"a": ' + "[" * 100_000 + "]" * 100_000 + "}}</tool_call>"
    async with talk(lambda call: completion(deep), max_length=300_000) as t:
        answer = await t.say(HELLO, tools=[ADD])
        follow = [*HELLO, {"role": "assistant", "content": deep}, {"role": "user", "content": "go on"}]
        await t.say(follow, tools=[ADD])
    assert answer.choices[0].message.content == deep
    assert t.session.failure is None
    (segment,) = t.session.segments()
    assert len(segment.turns) == 2


async def test_without_a_session_nothing_is_kept(talk):
    async with talk(lambda call: completion("hi")) as t:
        client = quick_client(f"{t.server.address}/v1")
        async with client:
            await client.chat.completions.create(model="policy", messages=HELLO)
            await client.chat.completions.create(model="policy", messages=HELLO, extra_body={"session_id": "s"})
    assert len(t.server.sessions) == 1
    assert len(t.session.traces) == 1


HALF = "half of a surrogate pair follows"


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": "say \ud83d"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "say \udc00"}]}]},
        {"messages": HELLO, "stop": ["\ud800"]},
        {"messages": HELLO, "tools": [ADD | {"\udfff": 1}]},
    ],
)
async def test_half_of_a_surrogate_pair_is_the_requests_fault(talk, body):
    """json.dumps writes it as an escape, which is valid JSON; the other half may have been cut off by the agent."""
    async with (
        talk(lambda call: completion("hi")) as t,
        aiohttp.ClientSession() as http,
        http.post(f"{t.server.base_url('s')}/chat/completions", data=json.dumps(body)) as response,
    ):
        assert response.status == 400
        error = (await response.json())["error"]
    assert error["code"] == "invalid_request_error"
    assert HALF in error["message"]
    assert t.engine.calls == []
    assert t.session.failure is None


async def test_half_of_a_pair_is_named_by_what_stands_before_it_and_a_whole_pair_is_a_character(talk):
    async with talk(lambda call: completion("hi")) as t, aiohttp.ClientSession() as http:
        async with http.post(f"{t.server.address}/tokenize", data='{"prompt": "say \\ud83d."}') as response:
            assert response.status == 400
            assert f"""{HALF} '{{"prompt": "say ': no text""" in (await response.json())["error"]["message"]
        async with http.post(f"{t.server.address}/tokenize", data='{"prompt": "\\ud83d\\ude00"}') as response:
            assert response.status == 200
