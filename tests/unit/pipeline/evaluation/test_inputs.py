"""What an evaluation reads is opened before any engine starts."""

import json
import shutil

import pytest
from transformers import Qwen3_5Config

from openrlhf.config.errors import ConfigError
from openrlhf.config.evaluate import EvaluateConfig
from openrlhf.config.schema import nest
from openrlhf.pipeline.evaluation.engine import engine_arguments
from openrlhf.pipeline.evaluation.inputs import open_inputs
from tests.models import make_tiny_tokenizer, tiny_llama_config
from tests.vision_models import tiny_idefics3_config, tiny_idefics3_processor


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Model folders without weights: one of text, one that takes images, and a tokenizer alone."""
    folder = tmp_path_factory.mktemp("models")
    tiny_llama_config().save_pretrained(folder / "text")
    make_tiny_tokenizer().save_pretrained(folder / "text")
    tiny_idefics3_config().save_pretrained(folder / "seeing")
    tiny_idefics3_processor().save_pretrained(folder / "seeing")
    make_tiny_tokenizer().save_pretrained(folder / "tokenizer")
    Qwen3_5Config(image_token_id=tiny_idefics3_config().image_token_id).save_pretrained(folder / "without_entry")
    tiny_idefics3_processor().tokenizer.save_pretrained(folder / "without_entry")
    return folder


def opened(tmp_path, rows, **flags):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "reward.py").write_text("def reward_func(queries, prompts, labels):\n    return [1.0]\n")
    given = {"eval.dataset": str(tmp_path / "rows.jsonl"), "reward.remote_url": str(tmp_path / "reward.py")}
    given |= {name.replace("__", "."): str(value) for name, value in flags.items()}
    return open_inputs(EvaluateConfig.model_validate(nest(given)))


def test_a_datasource_may_not_bear_the_name_of_their_total(models, tmp_path):
    rows = [{"input": "a", "datasource": "all"}, {"input": "b", "datasource": "other"}]
    with pytest.raises(ConfigError, match="a datasource is called 'all'"):
        opened(tmp_path, rows, endpoint__tokenizer=models / "tokenizer", endpoint__url="http://127.0.0.1:1/v1")
    assert len(
        opened(tmp_path, rows[:1], endpoint__tokenizer=models / "tokenizer", endpoint__url="http://x/v1").prompts
    )


WITH_IMAGES = [
    {"input": "a", "images": ["one.png"]},
    {"input": "b", "images": []},
    {"input": "c", "images": None},
    {"input": "d", "images": "two.png"},
    {"input": "e"},
]


def test_images_that_a_model_would_not_be_shown_are_one_line(models, tmp_path):
    for flags in (
        {"actor__model_name_or_path": models / "seeing"},
        {"endpoint__url": "http://127.0.0.1:9/v1", "endpoint__tokenizer": models / "seeing"},
    ):
        with pytest.raises(ConfigError) as caught:
            opened(tmp_path, WITH_IMAGES, **flags)
        (line,) = caught.value.problems
        assert line.startswith(f"{tmp_path / 'rows.jsonl'}: 2 of 5 rows have 'images', and this command shows a model")
        assert "--eval.dataset" in line


@pytest.mark.parametrize("chat", [False, True])
def test_a_placeholder_in_a_prompt_is_refused_by_row(models, tmp_path, chat):
    # The figures are in a column of another name: the model would be tested blind.
    rows = [{"input": "a"}, {"input": "is <image> red", "figure": "red.png"}]
    for flags in (
        {"actor__model_name_or_path": models / "seeing"},
        {"endpoint__url": "http://127.0.0.1:9/v1", "endpoint__tokenizer": models / "seeing"},
    ):
        with pytest.raises(ConfigError) as caught:
            opened(tmp_path, rows, data__apply_chat_template=chat, **flags)
        (line,) = caught.value.problems
        assert line.startswith(f"{tmp_path / 'rows.jsonl'}:2: the prompt shows 1 images, but")
        assert "which shows text only" in line


def test_a_placeholder_is_refused_of_a_model_without_an_entry_too(models, tmp_path):
    flags = {"actor__model_name_or_path": models / "without_entry"}
    assert opened(tmp_path, [{"input": "a"}], **flags).vision is None  # vLLM alone runs it on text
    with pytest.raises(ConfigError, match=r"prompt 1 \('is <image> red'\) has '<image>', the place of an image"):
        opened(tmp_path, [{"input": "a"}, {"input": "is <image> red"}], **flags)


def test_the_other_usual_column_of_images_is_looked_at(models, tmp_path):
    with pytest.raises(ConfigError, match="1 of 2 rows have 'image', and this command shows a model text only"):
        opened(
            tmp_path, [{"input": "a", "image": "1.png"}, {"input": "b"}], actor__model_name_or_path=models / "seeing"
        )


def test_image_tokens_are_not_sampled(models, tmp_path):
    inputs = opened(tmp_path, [{"input": "a"}], actor__model_name_or_path=models / "seeing")
    config = EvaluateConfig.model_validate(nest({"actor.model_name_or_path": str(models / "seeing")}))
    arguments = engine_arguments(config, "cpu", inputs.vision)
    assert arguments.image_tokens.banned_ids == (tiny_idefics3_config().image_token_id,)
    assert arguments.image_tokens.max_images == 0


def test_rows_of_text_pass_whatever_the_model(models, tmp_path):
    text = [{"input": row["input"]} for row in WITH_IMAGES]
    assert len(opened(tmp_path, text, actor__model_name_or_path=models / "seeing").prompts) == 5
    assert len(opened(tmp_path, WITH_IMAGES, actor__model_name_or_path=models / "text").prompts) == 5
    served = {"endpoint__url": "http://127.0.0.1:9/v1", "endpoint__tokenizer": models / "tokenizer"}
    assert len(opened(tmp_path, WITH_IMAGES, **served).prompts) == 5


def test_text_for_a_model_that_sees_is_rendered_by_its_processors_template(models, tmp_path):
    folder = shutil.copytree(models / "seeing", tmp_path / "older")
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").unlink()
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": template}))  # tokenizers do not look there
    rows = [{"input": "a"}, {"input": [{"role": "user", "content": "b"}]}]
    for flags in (
        {"actor__model_name_or_path": folder},
        {"endpoint__url": "http://127.0.0.1:9/v1", "endpoint__tokenizer": folder},
    ):
        prompts = opened(tmp_path, rows, data__apply_chat_template=True, **flags).prompts
        assert [prompt.text for prompt in prompts] == ["user: aassistant: ", "user: bassistant: "]
