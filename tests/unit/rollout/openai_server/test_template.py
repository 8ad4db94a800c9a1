"""The form in which a template takes the content of messages, and what it writes."""

import pytest

from openrlhf.rollout.openai_server.messages import FunctionCall, Message, ToolCall
from openrlhf.rollout.openai_server.template import ChatTemplate
from tests.agent_fakes import ChatTokenizer
from tests.models import make_tiny_tokenizer

HELLO = [Message(role="user", content="hello")]


class PartsTokenizer(ChatTokenizer):
    """Its template goes through the parts of a message, as those of vision-language models do."""

    refuses_strings = False

    def _message(self, message, earlier):
        content = message["content"]
        if self.refuses_strings and isinstance(content, str):
            raise TypeError("string indices must be integers")
        said = "".join(part["text"] for part in content if isinstance(part, dict) and part["type"] == "text")
        return super()._message({**message, "content": said}, earlier)


class SilentTokenizer(ChatTokenizer):
    def _message(self, message, earlier):
        return "<user><eos>"


@pytest.mark.parametrize("refuses_strings", [True, False])
def test_a_template_that_wants_parts_gets_parts(refuses_strings):
    tokenizer = PartsTokenizer()
    tokenizer.refuses_strings = refuses_strings
    template = ChatTemplate(tokenizer)
    expected = "<user>hello<eos>\n<assistant>"
    assert template.render(HELLO, open_answer=True) == expected
    tools = [{"type": "function", "function": {"name": "add"}}]
    assert template.with_tools(tools).render(HELLO, open_answer=True) == "[add]" + expected
    assert template.render(HELLO, open_answer=True) == expected  # the tools of one request stay with it
    assert template.opening() == "<assistant>"
    assert template.render([Message(role="assistant", content=None)], open_answer=False) == "<assistant><eos>\n"


def test_a_template_for_text_gets_text():
    class Strict(ChatTokenizer):
        def _message(self, message, earlier):
            assert isinstance(message["content"], str)
            return super()._message(message, earlier)

    assert ChatTemplate(Strict()).render(HELLO, open_answer=False) == "<user>hello<eos>\n"


def test_a_template_that_prints_nothing_is_refused():
    with pytest.raises(ValueError, match="prints nothing of a user's message"):
        ChatTemplate(SilentTokenizer())


def test_special_tokens_are_taken_out_of_a_text():
    assert ChatTemplate(ChatTokenizer()).without_special("<bos>a <b> c<eos><eos>") == "a <b> c"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("c.function.arguments | tojson", '{"a": 1}'),  # an object
        ("':' + c.function.arguments", ':{"a":1}'),  # a string, as the client wrote it
    ],
)
def test_arguments_of_calls_have_the_form_that_the_template_takes(monkeypatch, written, expected):
    tokenizer = make_tiny_tokenizer()
    shown = "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ W }}{% endfor %}{% endfor %}"
    monkeypatch.setattr(tokenizer, "chat_template", shown.replace("W", written))
    call = ToolCall(id="1", function=FunctionCall(name="f", arguments='{"a":1}'))
    messages = [*HELLO, Message(role="assistant", tool_calls=[call])]
    assert ChatTemplate(tokenizer).render(messages, open_answer=False) == "hello" + expected
