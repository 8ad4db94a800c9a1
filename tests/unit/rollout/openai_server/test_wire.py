"""What a chat request may hold: what changes the sampling is taken or refused, and only what changes nothing passes."""

import pytest
from pydantic import ValidationError

from openrlhf.rollout.openai_server.wire import ChatRequest, TokenizeRequest

HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "add"}}


def ask(**fields) -> ChatRequest:
    return ChatRequest.model_validate({"messages": HELLO, **fields})


@pytest.mark.parametrize(
    "field",
    [
        {"ignore_eos": True},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"guided_choice": ["a", "b"]},
        {"guided_json": {"type": "object"}},
        {"bad_words": ["no"]},
        {"allowed_token_ids": [1]},
        {"add_generation_prompt": False},
        {"continue_final_message": True},
        {"reasoning_effort": "low"},
        {"verbosity": "low"},
        {"logit_bias": {"5": 1}},
        {"top_k": 5},
        {"web_search_options": {"user_location": None}},
        {"temprature": 0.5},
    ],
)
def test_what_is_not_known_to_change_nothing_is_refused_by_name(field):
    (name,) = field
    with pytest.raises(ValidationError, match=f"{name} is not supported by this server; leave it out"):
        ask(**field)


@pytest.mark.parametrize(
    "field",
    [
        {"user": "u", "store": True, "metadata": {"run": "1"}, "service_tier": "flex", "safety_identifier": "s"},
        {"parallel_tool_calls": False, "prompt_cache_key": "k", "prompt_cache_retention": "24h"},
        {"presence_penalty": 0.0, "frequency_penalty": 0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
        {"ignore_eos": False, "add_generation_prompt": True, "skip_special_tokens": True, "verbosity": "medium"},
        {"chat_template_kwargs": {}, "bad_words": [], "logit_bias": {}, "functions": [], "modalities": ["text"]},
        {"reasoning_effort": None, "guided_json": None, "whatever": None},
    ],
)
def test_what_asks_for_nothing_passes(field):
    assert ask(**field).model == ""


def test_an_answer_is_bound_in_one_way_only():
    assert ask(structured_outputs={"choice": ["a"]}, response_format={"type": "text"}).structured_outputs
    for more in ({"response_format": {"type": "json_object"}}, {"tools": [TOOL], "tool_choice": "required"}):
        with pytest.raises(ValidationError, match="cannot be a tool call and have a response_format or structured_out"):
            ask(structured_outputs={"choice": ["a"]}, **more)


@pytest.mark.parametrize(
    "tool",
    [{"function": None}, {"function": "x"}, {"function": [TOOL]}, {"function": {"name": "x", "parameters": [1]}}],
)
@pytest.mark.parametrize("choice", [None, "required", {"function": {"name": "x"}}])
def test_a_tools_function_and_its_parameters_are_objects(tool, choice):
    with pytest.raises(ValidationError, match="the function of a tool, and its parameters, have to be objects"):
        ask(tools=[tool], tool_choice=choice)
    with pytest.raises(ValidationError, match="have to be objects"):
        TokenizeRequest.model_validate({"prompt": "x", "tools": [tool]})


def test_an_empty_stop_is_none():
    assert [ask(stop=stop).stops for stop in ("", [""], "a", ["a", ""], None)] == [(), (), ("a",), ("a",), ()]
