"""What a session keeps: sampled ids as they were sampled, one segment as long as the template lets it."""

import asyncio
import json

import pytest

from openrlhf.rollout.openai_server.session import Session, Sessions
from openrlhf.types import SamplingParams
from tests.agent_fakes import ChatTokenizer, within
from tests.fakes import completion

ASK = {"role": "user", "content": "axy"}
AGAIN = {"role": "user", "content": "bxy"}
ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
MERGED = ChatTokenizer.MERGED


def ids(text: str) -> list[int]:
    return ChatTokenizer()(text, add_special_tokens=False)["input_ids"]


async def test_a_second_turn_keeps_the_sampled_ids(talk):
    # The policy samples x and y as two tokens. Tokenised again, the history would hold their merge instead.
    async with talk(lambda call: completion("xy")) as t:
        first = await t.say([ASK])
        await t.say([ASK, first.choices[0].message, AGAIN])
    opened = ids("<user>axy<eos>\n<assistant>")
    added = ids("\n<user>bxy<eos>\n<assistant>")  # the end token was sampled, so only the line break is new
    sampled = [ord("x"), ord("y"), 0]
    assert t.engine.calls[1].prompt_token_ids == opened + sampled + added
    (segment,) = t.session.segments()
    assert segment.token_ids.tolist() == opened + sampled + added + sampled
    assert segment.action_mask.tolist() == [False] * len(opened) + [True] * 3 + [False] * len(added) + [True] * 3
    assert segment.logprobs[segment.action_mask].tolist() == [-0.5, -1.0, -1.5] * 2


@pytest.mark.parametrize(("text", "finish"), [("hi", "length"), ("hiEND", "stop")])
async def test_a_turn_that_was_not_ended_by_the_policy_is_ended_by_the_template(talk, text, finish):
    async with talk(lambda call: completion(text, eos=False, finish_reason=finish)) as t:
        first = await t.say([ASK], stop=["END"])
        assert first.choices[0].message.content == "hi"
        await t.say([ASK, first.choices[0].message, AGAIN])
    assert t.prompts()[1] == f"<user>axy<eos>\n<assistant>{text}<eos>\n<user>bxy<eos>\n<assistant>"
    assert len(t.session.segments()) == 1


async def test_a_template_that_rewrites_history_opens_a_new_segment(talk):
    # Sampled with reasoning; the next request's template has dropped it, so the policy sees another history.
    script = lambda call: completion("why</think>xy")  # noqa: E731
    async with talk(script, tokenizer=ChatTokenizer(drop_reasoning=True)) as t:
        first = await t.say([ASK])
        await t.say([ASK, first.choices[0].message, AGAIN])
    first_segment, second = t.session.segments()
    opened = ids("<user>axy<eos>\n<assistant>")
    assert first_segment.token_ids.tolist() == opened + [ord(c) for c in "why</think>xy"] + [0]
    rewritten = ids("<user>axy<eos>\n<assistant>xy<eos>\n<user>bxy<eos>\n<assistant>")
    assert MERGED in rewritten[len(opened) :][:1]  # tokenised as text, and no action of this segment
    assert t.engine.calls[1].prompt_token_ids == rewritten
    assert not second.action_mask[: len(rewritten)].any()
    assert second.num_actions == first_segment.num_actions == 14


async def test_a_tool_loop_is_one_segment_however_the_client_writes_it_down(talk):
    texts = ['I add. <tool_call>{"name":"add","arguments":{"a":1,"b":2}}</tool_call>', "3"]
    async with talk(lambda call: completion(texts[len(t.engine.calls) - 1])) as t:
        first = (await t.say([ASK], tools=[ADD])).choices[0].message
        call = first.tool_calls[0]
        function = {"name": "add", "arguments": json.dumps({"b": 2, "a": 1}, indent=1)}
        again = {"role": "assistant", "content": [{"type": "text", "text": first.content}]}
        again["tool_calls"] = [{"id": call.id, "type": "function", "function": function}]
        await t.say([ASK, again, {"role": "tool", "tool_call_id": call.id, "content": "3"}], tools=[ADD])
    # The ids are those that were sampled, though the template writes calls in another way.
    assert t.prompts()[1] == f"[add]<user>axy<eos>\n<assistant>{texts[0]}<eos>\n<tool>3<eos>\n<assistant>"
    (segment,) = t.session.segments()
    assert len(segment.turns) == 2


@pytest.mark.parametrize("change", ["answer", "question", "tools"])
async def test_another_history_is_another_segment(talk, change):
    async with talk(lambda call: completion("hi")) as t:
        first = (await t.say([ASK])).choices[0].message.content
        question = {"role": "user", "content": "other"} if change == "question" else ASK
        answer = {"role": "assistant", "content": "other" if change == "answer" else first}
        await t.say([question, answer, AGAIN], **({"tools": [ADD]} if change == "tools" else {}))
    assert len(t.session.segments()) == 2


async def test_a_conversation_that_branches_keeps_both_branches(talk):
    async with talk(lambda call: completion("hi")) as t:
        answer = (await t.say([ASK])).choices[0].message
        await t.say([ASK, answer, AGAIN])
        await t.say([ASK, answer, {"role": "user", "content": "other"}])
    assert [len(segment.turns) for segment in t.session.segments()] == [2, 1]


async def test_requests_of_one_session_wait_for_each_other_and_sessions_do_not(talk):
    async with talk(lambda call: completion("hi")) as t:
        t.server.sessions.open("other", Session(SamplingParams(max_tokens=9), 400))
        requests = [t.say([ASK], extra_body={"session_id": "ignored: the address says it"}) for _ in range(4)]
        await within(20, asyncio.gather(*requests))
        assert t.engine.most_at_once == 1
        other = t.client.with_options(base_url=t.server.base_url("other"))
        ask = {"model": "policy", "messages": [ASK]}
        t.engine.script = lambda call: completion("hi")
        await within(20, asyncio.gather(t.say([ASK]), other.chat.completions.create(**ask)))
    assert len(t.session.traces) == 5
    assert len(t.server.sessions) == 2


def test_a_session_that_nobody_uses_expires():
    now = [0.0]
    sessions = Sessions(idle_s=10, now=lambda: now[0])

    def make() -> Session:
        return Session(SamplingParams(), 100)

    sessions.open("kept", make())
    idle, used = sessions.use("idle", make), sessions.use("used", make)
    now[0] = 8.0
    assert sessions.use("used", make) is used
    now[0] = 11.0
    assert sessions.use("used", make) is used
    assert sessions.use("idle", make) is not idle
    assert len(sessions) == 3
    sessions.close("kept")
    sessions.close("kept")
    assert len(sessions) == 2
    with pytest.raises(ValueError, match="'used' is open already"):
        sessions.open("used", make())
