"""From a prompt value to the text the policy sees: rendered, or refused with row and key."""

import pytest

from openrlhf.data.errors import DataError
from openrlhf.data.rows import Row
from openrlhf.data.template import make_renderer
from tests.fakes import FakeImageTokens
from tests.models import make_tiny_tokenizer

MESSAGES = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi {}"}]


@pytest.fixture(scope="module")
def tokenizer():
    """Its template writes `role: content` lines and opens the answer with `assistant: `."""
    return make_tiny_tokenizer()


def _row(value):
    return Row({"q": value}, "set.jsonl", 3, "line")


def _typed(value):
    return Row({"q": value}, "set.parquet", 3, "row")


def _plain(value, template=None):
    return make_renderer(None, False, template)(_row(value), "q")


def test_without_templates_the_text_stays_untouched():
    assert _plain(" {x} \n ü ") == " {x} \n ü "


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("User: {}\nAssistant: ", "User: {a}\nAssistant: "),
        ('{{"in": "{}"}}', '{"in": "{a}"}'),
    ],
)
def test_the_input_template_takes_the_prompt_in_its_braces(template, expected):
    assert _plain("{a}", template) == expected


@pytest.mark.parametrize("template", ["no braces", "{} {}", "{0}", "{name}", '{"a": 1} {}', "{", "{!r}", "{:>5}", ""])
def test_a_template_that_cannot_take_one_prompt_is_refused(template):
    with pytest.raises(DataError, match=r"expected exactly one \{\}"):
        make_renderer(None, False, template)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (MESSAGES, "is a list"),
        ([], "is a list"),
        ({"role": "user", "content": "x"}, "of type dict"),
        (5, "of type int"),
        (True, "of type bool"),
        (None, "is null"),
        ("", "is empty"),
        (" \n", "is empty"),
        ("\ud83d", "surrogate"),
    ],
)
def test_without_a_chat_template_only_text_is_taken(value, says):
    with pytest.raises(DataError, match=rf"^set.jsonl:3: 'q'.*{says}") as caught:
        _plain(value)
    assert "role" not in str(caught.value)


def test_an_absent_prompt_is_named():
    with pytest.raises(DataError, match=r"^set.jsonl:3: 'q' is missing"):
        make_renderer(None, False, None)(Row({}, "set.jsonl", 3, "line"), "q")


def test_the_chat_template_takes_text_and_messages(tokenizer):
    render = make_renderer(tokenizer, True, None)
    assert render(_row("hi"), "q") == "user: hi\nassistant: "
    assert render(_row(MESSAGES), "q") == "system: be brief\nuser: hi {}\nassistant: "
    again = [MESSAGES[1], {"role": "assistant", "content": "yes?"}, {"role": "user", "content": "go"}]
    assert render(_row(again), "q") == "user: hi {}\nassistant: yes?\n</s>user: go\nassistant: "


def test_entries_that_a_typed_column_filled_with_null_are_not_shown_to_the_template(tokenizer, monkeypatch):
    monkeypatch.setattr(
        tokenizer, "chat_template", "{% for m in messages %}{{ 'name' in m }}{{ m.content }}{% endfor %}"
    )
    render = make_renderer(tokenizer, True, None)
    for row in (_row, _typed):
        assert render(row([{"role": "user", "content": "x", "name": None}]), "q") == "Falsex"


def test_a_message_that_only_calls_tools_has_no_content(tokenizer, monkeypatch):
    # OpenAI's own form; templates read an empty string, as from the agent server.
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    calling = {"role": "assistant", "content": None, "tool_calls": [call]}
    messages = [MESSAGES[1], calling, {"role": "tool", "content": "5"}]
    template = "{% for m in messages %}[{{ m.content }}{{ m.tool_calls[0].function.name if m.tool_calls }}]{% endfor %}"
    monkeypatch.setattr(tokenizer, "chat_template", template)
    assert make_renderer(tokenizer, True, None)(_row(messages), "q") == "[hi {}][f][5]"
    parts = "{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %};{% endfor %}"
    monkeypatch.setattr(tokenizer, "chat_template", parts)
    assert make_renderer(tokenizer, True, None, FakeImageTokens())(_row(messages), "q") == "hi {};;5;"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([], "empty list of messages"),
        (["hi"], "message 1 of 'q' is no message"),
        ([{"role": "user", "content": "x"}, {"content": "y"}], "message 2 of 'q' is no message"),
        ([{"role": 1, "content": "y"}], "is no message"),
        ([{"role": "user"}], "a 'content' of type NoneType"),
        ([{"role": "user", "content": None, "tool_calls": []}], "a 'content' of type NoneType"),
        # A set for fine-tuning: the policy would see the answer, and then a second turn of the assistant.
        ([{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}], "put the expected answer into"),
        ([{"role": "user", "content": [{"type": "text", "text": "x"}]}], "a 'content' of type list"),
        ([{"role": "user", "content": 5}], "a 'content' of type int"),
        ([{"role": "user", "content": "\ud83d"}], "surrogate"),
        ({"role": "user", "content": "x"}, "of type dict"),
        (5, "of type int"),
        ("", "is empty"),
        (None, "is null"),
    ],
)
def test_with_a_chat_template_other_values_are_refused(tokenizer, value, says):
    with pytest.raises(DataError, match=r"^set.jsonl:3: ") as caught:
        make_renderer(tokenizer, True, None)(_row(value), "q")
    assert says in str(caught.value)


def test_what_the_template_itself_refuses_is_named_with_its_row(tokenizer, monkeypatch):
    template = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}x"
    monkeypatch.setattr(tokenizer, "chat_template", template)
    render = make_renderer(tokenizer, True, None)
    assert render(_row("hi"), "q") == "x"
    with pytest.raises(DataError, match=r"^set.jsonl:3: the chat template refused 'q': System role not supported$"):
        render(_row(MESSAGES), "q")
    monkeypatch.setattr(tokenizer, "chat_template", "{{ messages[0].nothing.here }}")
    with pytest.raises(DataError, match=r"^set.jsonl:3: the chat template refused 'q': "):
        render(_row("hi"), "q")
    monkeypatch.setattr(tokenizer, "chat_template", "{{ '' }}")
    with pytest.raises(DataError, match="made no text"):
        render(_row("hi"), "q")


TEXT_ONLY = {
    "Python": "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}",
    "one by one": "{% for m in messages %}{% for part in m.content %}{{ part }}{% endfor %}{% endfor %}",
    "JSON": "{% for m in messages %}{{ m.content | tojson }}{% endfor %}",
}


@pytest.mark.parametrize("name", TEXT_ONLY)
def test_a_template_that_does_not_know_parts_is_refused(tokenizer, monkeypatch, name):
    monkeypatch.setattr(tokenizer, "chat_template", TEXT_ONLY[name])
    render = make_renderer(tokenizer, True, None, FakeImageTokens())
    for value in ("What is <image>?", "é", [{"role": "user", "content": [{"type": "image"}]}]):
        with pytest.raises(DataError, match=r"^set.jsonl:3: the chat template is for text only: it writes"):
            render(_row(value), "q")


def test_a_text_about_parts_passes(tokenizer, monkeypatch):
    template = "{% for part in messages[0].content %}{{ part.text if part.type == 'text' else '#' }}{% endfor %}"
    monkeypatch.setattr(tokenizer, "chat_template", template)
    text = "what is {'type': 'image'}? <image>"
    rendered = make_renderer(tokenizer, True, None, FakeImageTokens())(_row(text), "q")
    assert rendered == "what is {'type': 'image'}? #"


def test_settings_that_do_not_fit_are_refused_before_any_row(tokenizer, monkeypatch):
    with pytest.raises(DataError, match="input_template has no effect"):
        make_renderer(tokenizer, True, "{}")
    with pytest.raises(DataError, match="no chat template"):
        make_renderer(None, True, None)
    monkeypatch.setattr(tokenizer, "chat_template", None)
    with pytest.raises(DataError, match="no chat template"):
        make_renderer(tokenizer, True, None)


CALLS = "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c | tojson }}{% endfor %}{% endfor %}."


def calling(*calls):
    """The arguments are those of a row that Arrow has aligned with others: every key of any row, at any depth."""
    return [MESSAGES[1], {"role": "assistant", "content": None, "tool_calls": list(calls)}, MESSAGES[1]]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        # The entries of other rows' arguments are no arguments of this one; a None in a list is the row's own.
        (
            {
                "id": None,
                "function": {"name": "f", "arguments": {"city": "P", "lat": None, "at": {"x": [None], "y": None}}},
            },
            '{"function": {"name": "f", "arguments": {"city": "P", "at": {"x": [null]}}}}',
        ),
        ({"name": "f", "arguments": {"a": None, "b": 0}}, '{"name": "f", "arguments": {"b": 0}}'),
        # OpenAI's own form: JSON in a string, in which null is meant.
        (
            {"function": {"name": "w", "arguments": '{"city": "SF", "unit": null}'}},
            '{"function": {"name": "w", "arguments": {"city": "SF", "unit": null}}}',
        ),
        ({"function": {"arguments": "SF"}}, '{"function": {"arguments": "SF"}}'),
        ({"function": {"arguments": "[1]"}}, '{"function": {"arguments": "[1]"}}'),
        ("as text", '"as text"'),
    ],
)
def test_tool_calls_are_shown_as_the_row_has_them(tokenizer, monkeypatch, call, expected):
    monkeypatch.setattr(tokenizer, "chat_template", CALLS)
    assert make_renderer(tokenizer, True, None)(_typed(calling(call)), "q") == f"{expected}."


def test_a_null_that_a_line_of_json_has_is_its_own(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", CALLS + "{{ tools | tojson }}")
    call = {"name": "f", "arguments": {"city": None, "n": 1}}
    tool = {"name": "f", "parameters": {"city": {"default": None}}}
    row = Row({"q": calling(call), "tools": [tool]}, "set.jsonl", 3, "line")
    assert make_renderer(tokenizer, True, None)(row, "q") == (
        '{"name": "f", "arguments": {"city": null, "n": 1}}.[{"name": "f", "parameters": {"city": {"default": null}}}]'
    )


JOINED = {  # as DeepSeek's templates join arguments to text; the other two would write an object as Python does
    "+": "{{ c.function.name + ':' + c.function.arguments }}",
    "~": "{{ c.function.name ~ ':' ~ c.function.arguments }}",
    "printed": "{{ c.function.name }}:{{ c.function.arguments }}",
}


@pytest.mark.parametrize("name", JOINED)
def test_a_template_that_joins_arguments_to_its_text_gets_their_strings(tokenizer, monkeypatch, name):
    template = f"{{% for m in messages %}}{{% for c in m.tool_calls or [] %}}{JOINED[name]}{{% endfor %}}{{% endfor %}}"
    monkeypatch.setattr(tokenizer, "chat_template", template)
    render = make_renderer(tokenizer, True, None)
    call = {"type": "function", "function": {"name": "w", "arguments": '{"city":  "SF"}'}}
    assert render(_row(calling(call)), "q") == 'w:{"city":  "SF"}'
    # An object stays one: there is no string that its author wrote.
    given = calling({"function": {"name": "w", "arguments": {"city": "SF"}}})
    if name == "+":
        with pytest.raises(DataError, match=r"^set.jsonl:3: the chat template refused 'q': can only concatenate str"):
            render(_row(given), "q")


def test_a_template_that_takes_neither_form_of_arguments_is_named_with_what_it_says_of_objects(tokenizer, monkeypatch):
    template = "{{ raise_exception('object' if messages[1].tool_calls[0].arguments is mapping else 'string') }}"
    monkeypatch.setattr(tokenizer, "chat_template", template)
    with pytest.raises(DataError, match=r"the chat template refused 'q': object$"):
        make_renderer(tokenizer, True, None)(_row(calling({"name": "w", "arguments": '{"a": 1}'})), "q")


def test_a_part_is_shown_without_the_nulls_of_other_rows(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", "{{ messages[0].content[0].more | tojson }}")
    part = {"type": "text", "text": "x", "more": {"a": 1, "b": None}}
    render = make_renderer(tokenizer, True, None, FakeImageTokens())
    assert render(_typed([{"role": "user", "content": [part]}]), "q") == '{"a": 1}'


TOOL = {"type": "function", "function": {"name": "w", "description": None}}


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ([TOOL], '[{"type": "function", "function": {"name": "w"}}]'),
        ('[{"name": "w", "default": null}]', '[{"name": "w", "default": null}]'),  # text is what its author wrote
        (None, "none"),
        ("", "none"),
        ('{"name": "w"}', '[{"name": "w"}]'),
        ({"name": "w"}, '[{"name": "w"}]'),
        (['{"name": "w", "default": null}'], '[{"name": "w", "default": null}]'),
        ([], "none"),
        ("[]", "none"),
        ("null", "none"),
        (" \n", "none"),
        ({"name": None}, "none"),  # of a typed column, a row without a tool
    ],
)
def test_the_template_is_given_the_tools_of_a_row(tokenizer, monkeypatch, tools, expected):
    monkeypatch.setattr(tokenizer, "chat_template", "{{ tools | tojson if tools else 'none' }}")
    row = Row({"q": "hi", "tools": tools}, "set.parquet", 3, "row")
    assert make_renderer(tokenizer, True, None)(row, "q") == expected


@pytest.mark.parametrize(
    "tools", [["search"], "search, w", 3, "3", [[TOOL]], [None], ["null"], "[1", [{"name": "w"}, "x"]]
)
def test_tools_of_another_form_are_not_shown(tokenizer, monkeypatch, tools):
    monkeypatch.setattr(tokenizer, "chat_template", "{{ tools | tojson if tools else 'none' }}")
    row = Row({"q": "hi", "tools": tools}, "set.jsonl", 3, "line")
    assert make_renderer(tokenizer, True, None)(row, "q") == "none"
