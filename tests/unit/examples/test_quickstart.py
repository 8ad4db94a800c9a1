"""The quickstart's own parts: its data and reward. The whole run is an integration test."""

import importlib.util
import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def load(name: str):
    path = EXAMPLES / name
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LABEL = '{"name": "Anna", "age": 34}'


@pytest.mark.parametrize(
    ("reply", "reward"),
    [
        ('{"name": "Anna", "age": 34}<|im_end|>', 1.0),
        ('{\n  "age": 34,\n  "name": "Anna"\n}<|im_end|>', 1.0),  # order and layout of JSON are free
        ('{"name": "Anna", "age": 34}', 0.0),  # cut off before it ended
        ('{"name": "Anna", "age": 35}<|im_end|>', 0.0),
        ('{"name": "anna", "age": 34}<|im_end|>', 0.0),
        ('{"name": "Anna", "age": "34"}<|im_end|>', 0.0),
        ('{"name": "Anna", "age": 34.0}<|im_end|>', 0.0),
        ('{"name": "Anna", "age": 34, "city": "Rome"}<|im_end|>', 0.0),
        ('Sure! {"name": "Anna", "age": 34}<|im_end|>', 0.0),
        ("[]<|im_end|>", 0.0),
        ("<|im_end|>", 0.0),
    ],
)
def test_only_the_exact_object_that_ends_is_rewarded(reply, reward):
    prompt = "<|im_start|>user\nAnna is 34.<|im_end|>\n<|im_start|>assistant\n"
    result = load("quickstart/reward_func.py").reward_func([prompt + reply], [prompt], [LABEL])
    assert result["rewards"].tolist() == [reward]


@pytest.mark.parametrize("name", ["quickstart", "dates"])
def test_no_answer_of_the_test_set_is_ever_rewarded_in_training(name):
    train, test = load(f"{name}/make_data.py").make_rows()
    assert len(test) == 64
    answers = [row["label"] for row in train]
    assert len(answers) == len(set(answers)) == 512
    assert not set(answers) & {row["label"] for row in test}


def test_a_sentence_holds_both_values_of_its_label():
    train, test = load("quickstart/make_data.py").make_rows()
    for row in train + test:
        label = json.loads(row["label"])
        assert label["name"] in row["prompt"][0]["content"]
        assert str(label["age"]) in row["prompt"][0]["content"]


@pytest.mark.parametrize(
    ("reply", "reward"),
    [
        (" 1937-08-06\n7 May 2001 =", 1.0),
        (" 1937-08-06<|im_end|>", 1.0),
        (" 1937-08-06 or so\n", 0.0),
        (" 1937-8-6\n", 0.0),
        ("\n1937-08-06", 0.0),
        ("", 0.0),
    ],
)
def test_the_first_line_must_be_the_date(reply, reward):
    prompt = "12 May 2003 = 2003-05-12\n6 August 1937 ="
    result = load("dates/reward_func.py").reward_func([prompt + reply], [prompt], ["1937-08-06"])
    assert result["rewards"].tolist() == [reward]


def test_a_reply_is_cut_after_its_first_end_token_and_not_by_the_pad_id():
    cut_after = load("quickstart/score.py").cut_after
    assert cut_after([7, 8, 2, 2, 2], 2) == [7, 8, 2]
    assert cut_after([7, 8, 9], 2) == [7, 8, 9]


def test_the_report_shows_both_scores(tmp_path):
    (tmp_path / "score_before.json").write_text('{"prompts": 64, "greedy": 0.5, "sampled": 0.125}')
    (tmp_path / "score_after.json").write_text('{"prompts": 64, "greedy": 1.0, "sampled": 0.984}')
    (tmp_path / "metrics.jsonl").write_text(
        '{"step": 0, "eval_default_pass1": 0.1}\n{"step": 1, "timing/step_total": 12.5}\n'
    )
    text = load("quickstart/report.py").report(tmp_path)
    assert "0.500    1.000" in text
    assert "0.125    0.984" in text
    assert "1 steps in 12 s" in text


def test_the_chat_template_renders_only_the_messages_it_is_given():
    jinja2 = pytest.importorskip("jinja2")
    template = jinja2.Template(load("quickstart/prepare_model.py").CHAT_TEMPLATE)
    text = template.render(messages=[{"role": "user", "content": "Hi."}], add_generation_prompt=True)
    assert text == "<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n"
