"""Case i2 from file to Prompt, and the prompt set."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from openrlhf.config.data import DataConfig
from openrlhf.config.rollout import EvalConfig
from openrlhf.data.errors import DataError
from openrlhf.data.prompts import PromptSet, build_prompts, evaluation_prompts, training_prompts
from openrlhf.types import Prompt
from tests.models import make_tiny_tokenizer


def _write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_mixed_labels_reach_the_prompt_as_text(tmp_path):
    path = tmp_path / "mixed.jsonl"
    literals = ["2", '"$5$;$10$"', "[1, 2]", None, "null", "0.5", "true", '{"answer": "7"}', '"007"']
    labels = ["" if literal is None else f', "label": {literal}' for literal in literals]
    path.write_text("".join(f'{{"input": "q"{label}}}\n' for label in labels))
    prompts = build_prompts(str(path), label_key="label")
    expected = ["2", "$5$;$10$", "[1, 2]", "", "", "0.5", "true", '{"answer": "7"}', "007"]
    assert [prompt.label for prompt in prompts] == expected


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet", "csv"])
def test_integers_beside_one_null_never_become_floats(tmp_path, kind):
    path = tmp_path / f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"input": ["a", "b", "c"], "label": [1, None, 3]}), path)
    elif kind == "csv":
        path.write_text("input,label\na,1\nb,\nc,3\n")
    else:
        rows = [{"input": "a", "label": 1}, {"input": "b", "label": None}, {"input": "c", "label": 3}]
        path.write_text(json.dumps(rows) if kind == "json" else "".join(json.dumps(row) + "\n" for row in rows))
    assert [prompt.label for prompt in build_prompts(str(path), label_key="label")] == ["1", "", "3"]


def test_typed_columns_of_parquet(tmp_path):
    path = tmp_path / "rows.parquet"
    table = pa.table({"input": ["a"], "f": pa.array([0.1], pa.float32()), "d": [2.0], "b": [True], "s": ["007"]})
    pq.write_table(table, path)
    labels = [build_prompts(str(path), label_key=key)[0].label for key in ("f", "d", "b", "s")]
    assert labels == ["0.1", "2.0", "true", "007"]


def test_fields_of_a_prompt_and_their_defaults(tmp_path):
    rows = [
        {"input": "a", "label": 1, "datasource": "math", "task": "kk", "env_func": "tir"},
        {"input": "b", "datasource": None},
    ]
    path = _write(tmp_path / "rows.jsonl", rows)
    assert list(build_prompts(path, label_key="label")) == [
        Prompt(0, "a", "1", datasource="math", task="kk", env_func="tir"),
        Prompt(1, "b", "", datasource="default"),
    ]
    assert [prompt.label for prompt in build_prompts(path)] == ["", ""]


def test_faults_name_file_row_and_key(tmp_path):
    rows = [{"input": "a", "label": 1}, {"input": "b"}, {"label": 3}]
    path = _write(tmp_path / "rows.jsonl", rows)
    with pytest.raises(DataError, match=r"rows.jsonl:3: 'input' is missing; every row needs a prompt$"):
        build_prompts(path)
    with pytest.raises(DataError, match=r"rows.jsonl: no column 'answer'; its columns are input, label$"):
        build_prompts(path, label_key="answer")
    with pytest.raises(DataError, match=r"rows.jsonl: no column 'prompt'; its columns are input, label$"):
        build_prompts(path, input_key="prompt")
    table = pa.table({"input": ["a", None]})
    pq.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"rows.parquet, row 2: 'input' is null"):
        build_prompts(str(tmp_path / "rows.parquet"))


def test_messages_in_one_row_and_text_in_the_next(tmp_path):
    path = _write(tmp_path / "rows.jsonl", [{"input": [{"role": "user", "content": "a"}]}, {"input": "b"}])
    prompts = build_prompts(path, tokenizer=make_tiny_tokenizer(), apply_chat_template=True)
    assert [prompt.text for prompt in prompts] == ["user: a\nassistant: ", "user: b\nassistant: "]
    with pytest.raises(DataError, match=r"rows.jsonl:1: 'input' is a list"):
        build_prompts(path)


def _calling(arguments):
    function = {"name": "f", "arguments": arguments}
    call = {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": function}]}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {key: {} for key in arguments}}}]
    return {"q": [call, {"role": "user", "content": "x"}], "tools": tools}


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_calls_and_tools_of_one_row_do_not_show_the_next(tmp_path, kind, monkeypatch):
    tokenizer = make_tiny_tokenizer()
    template = "{{ messages[0].tool_calls[0].function.arguments | tojson }}{{ tools[0].function.name }}"
    monkeypatch.setattr(tokenizer, "chat_template", template)
    rows, path = [_calling({"city": "P"}), _calling({"lat": 2})], tmp_path / f"set.{kind}"
    if kind == "parquet":  # one type for both rows: each has the keys of the other, as null
        for row in rows:
            row["tools"][0]["function"].pop("parameters")  # Arrow has no type for {}
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    prompts = build_prompts(str(path), tokenizer=tokenizer, input_key="q", apply_chat_template=True)
    assert [prompt.text for prompt in prompts] == ['{"city": "P"}f', '{"lat": 2}f']


@pytest.mark.parametrize(("template", "warned"), [("{{ messages[0].content }}", 1), ("{{ tools }}", 0)])
def test_a_template_that_writes_no_tools_is_named_once(tmp_path, monkeypatch, caplog, template, warned):
    tokenizer = make_tiny_tokenizer()
    monkeypatch.setattr(tokenizer, "chat_template", template)
    path = _write(
        tmp_path / "set.jsonl", [{"q": "a"}, {"q": "b", "tools": [{"name": "f"}]}, {"q": "c", "tools": "[{}]"}]
    )
    build_prompts(str(path), tokenizer=tokenizer, input_key="q", apply_chat_template=True)
    assert caplog.text.count("set.jsonl:2: column 'tools' has no effect") == warned
    assert caplog.text.count("column 'tools'") == warned


def test_a_column_tools_of_something_else_is_named_once_for_each_file(tmp_path, monkeypatch, caplog):
    tokenizer = make_tiny_tokenizer()
    monkeypatch.setattr(tokenizer, "chat_template", "{{ messages[0].content }}{{ tools | length if tools }}")
    first = _write(tmp_path / "a.jsonl", [{"q": "a", "tools": [{"name": "f"}]}, *[{"q": "b", "tools": ["python"]}] * 2])
    second = _write(tmp_path / "b.jsonl", [{"q": "c", "tools": "python"}])
    prompts = build_prompts(f"{first},{second}", tokenizer=tokenizer, input_key="q", apply_chat_template=True)
    assert [prompt.text for prompt in prompts] == ["a1", "b", "b", "c"]
    for place in ("a.jsonl:2", "b.jsonl:1"):
        assert caplog.text.count(f"{place}: column 'tools' has no effect here") == 1
    assert caplog.text.count("column 'tools'") == 2


def test_repeated_rows_of_a_blend_have_ids_of_their_own(tmp_path):
    a = _write(tmp_path / "a.jsonl", [{"input": "a"}])
    b = _write(tmp_path / "b.jsonl", [{"input": f"b{i}"} for i in range(9)])
    prompts = build_prompts(f"{a},{b}", probs="0.5,0.5", seed=0)
    assert [prompt.prompt_id for prompt in prompts] == list(range(len(prompts)))
    assert sum(prompt.text == "a" for prompt in prompts) > 1


def test_training_and_evaluation_share_keys_and_template(tmp_path):
    _write(tmp_path / "train.jsonl", [{"q": "a", "y": 1}, {"q": "b", "y": 2}])
    _write(tmp_path / "test.jsonl", [{"q": "c", "y": 3}, {"q": "d", "y": 4}])
    data = DataConfig(prompt_dataset=str(tmp_path), input_key="q", label_key="y", input_template="Q: {}", max_samples=1)
    assert list(training_prompts(data, None, seed=0)) == [Prompt(0, "Q: a", "1")]
    held_out = evaluation_prompts(EvalConfig(dataset=str(tmp_path), split="test"), data, None, seed=0)
    assert held_out is not None
    assert list(held_out) == [Prompt(0, "Q: c", "3"), Prompt(1, "Q: d", "4")]
    assert evaluation_prompts(EvalConfig(), data, None, seed=0) is None
    with pytest.raises(DataError, match=r"name a file.*--data.prompt_dataset"):
        training_prompts(DataConfig(), None, seed=0)


def test_a_set_is_not_empty_and_its_ids_are_positions():
    with pytest.raises(DataError, match="empty"):
        PromptSet([])
    with pytest.raises(ValueError, match="prompt_id 1 at position 0"):
        PromptSet([Prompt(1, "a")])
    prompts = PromptSet([Prompt(0, "a"), Prompt(1, "b")])
    assert len(prompts) == 2
    assert prompts[1].text == "b"


def test_the_fingerprint_tells_sets_apart():
    base = PromptSet([Prompt(0, "a", "1"), Prompt(1, "b", "2")])
    assert base.fingerprint == PromptSet([Prompt(0, "a", "1"), Prompt(1, "b", "2")]).fingerprint
    others = [
        [Prompt(0, "b", "2"), Prompt(1, "a", "1")],  # order
        [Prompt(0, "a", "1")],
        [Prompt(0, "a", "1"), Prompt(1, "b", "3")],
        [Prompt(0, "a", "1"), Prompt(1, "b", "2", datasource="x")],
        [Prompt(0, "a", "1"), Prompt(1, "b", "2", task="x")],
        [Prompt(0, "a1", ""), Prompt(1, "b", "2")],  # the same letters, cut elsewhere
    ]
    assert len({base.fingerprint, *(PromptSet(rows).fingerprint for rows in others)}) == 7


def test_task_and_environment_come_from_a_column_or_from_the_label(tmp_path):
    label = {"uuid": "7", "env_func": "math_tir_async", "task": "math_tir"}
    rows = [
        {"input": "a", "label": json.dumps(label)},
        {"input": "b", "label": json.dumps({"env_func": "math_tir_async"}), "task": "math_tir"},
        {"input": "c", "label": label, "task": "math_tir", "env_func": "math_tir_async"},
        {"input": "d", "label": "42"},
    ]
    prompts = build_prompts(_write(tmp_path / "rows.jsonl", rows), label_key="label")
    assert [(p.task, p.env_func) for p in prompts] == [("math_tir", "math_tir_async")] * 3 + [(None, None)]


def test_a_column_that_contradicts_the_label_is_refused(tmp_path):
    rows = [{"input": "a", "label": json.dumps({"task": "math"}), "task": "kk"}]
    with pytest.raises(DataError, match="task is 'kk', but 'math' in the label"):
        build_prompts(_write(tmp_path / "rows.jsonl", rows), label_key="label")
