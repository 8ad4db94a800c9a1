"""Inputs are opened before any process starts, and every fault among them is one line."""

import json
import logging
import shutil

import pytest
from transformers import Idefics3Processor, Qwen3_5Config
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from openrlhf.config.errors import ConfigError
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.schema import nest
from openrlhf.pipeline.check import check_inputs
from tests.models import make_tiny_tokenizer, tiny_llama_config
from tests.pictures import file_of, plain
from tests.vision_models import tiny_idefics3_config, tiny_idefics3_processor


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model folder without weights, which nothing here loads."""
    folder = tmp_path_factory.mktemp("model")
    tiny_llama_config().save_pretrained(folder)
    make_tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def flags(model, tmp_path):
    (tmp_path / "prompts.jsonl").write_text('{"input": "abcd"}\n{"input": "abcdefghijkl"}\n{"input": "abcde"}\n')
    (tmp_path / "reward.py").write_text("def reward_func(queries, prompts, labels):\n    return [1.0]\n")
    return {
        "actor.model_name_or_path": str(model),
        "data.prompt_dataset": str(tmp_path / "prompts.jsonl"),
        "reward.remote_url": str(tmp_path / "reward.py"),
        "algo.advantage.estimator": "reinforce",
        "algo.kl.init_coef": 0.0,
    }


def check(flags):
    return check_inputs(PPOConfig.model_validate(nest(flags)))


def test_good_inputs(flags, caplog):
    with caplog.at_level(logging.WARNING):
        inputs = check(flags)
    assert [prompt.text for prompt in inputs.prompts] == ["abcd", "abcdefghijkl", "abcde"]
    assert (inputs.eval_prompts, inputs.cut) == (None, frozenset())
    assert caplog.text == ""


def test_a_best_metric_that_no_evaluation_gives_is_refused(flags, tmp_path):
    (tmp_path / "held.jsonl").write_text(
        '{"input": "a", "datasource": "gsm8k"}\n{"input": "b", "datasource": "math"}\n'
    )
    changes = {"eval.dataset": str(tmp_path / "held.jsonl"), "eval.n_samples_per_prompt": 4, "eval.steps": 1}
    for sound in ("", "none", "eval_math_pass4", "eval_gsm8k_pass1", "eval_truncated_rate"):
        check(flags | changes | {"ckpt.best_metric_key": sound})
    with pytest.raises(ConfigError) as caught:
        check(flags | changes | {"ckpt.best_metric_key": "eval_gsm8_pass1"})
    assert list(caught.value.problems) == [
        "--ckpt.best_metric_key eval_gsm8_pass1: no evaluation gives it; choose one of eval_gsm8k_pass1, "
        "eval_gsm8k_pass4, eval_math_pass1, eval_math_pass4, eval_response_length_mean, eval_truncated_rate, "
        "eval_num_samples, eval_ungraded_rate, eval_seconds"
    ]


def test_prompts_that_are_too_long_are_counted_and_told_once(flags, caplog):
    # One token per character: 10 - 5 = 5 tokens of prompt, and the second has 12.
    changes = {"data.max_len": 10, "rollout.max_new_tokens": 5, "eval.dataset": flags["data.prompt_dataset"]}
    with caplog.at_level(logging.WARNING):
        inputs = check(flags | changes)
    assert inputs.cut == frozenset({1})
    first, second = caplog.messages
    assert first.startswith("1 of 3 prompts have more than the 5 tokens that --rollout.max_new_tokens 5 leaves")
    assert "(the longest 12)" in first
    assert second.startswith("1 of 3 evaluation prompts")


def test_without_a_response_limit_a_prompt_leaves_one_token(flags):
    assert check(flags | {"data.max_len": 12}).cut == frozenset({1})
    assert check(flags | {"data.max_len": 13}).cut == frozenset()


def test_all_faults_come_at_once(flags, tmp_path):
    (tmp_path / "prompts.jsonl").write_text('{"input": "a"}\n{"question": "b"}\n')
    (tmp_path / "reward.py").write_text("import no_such_module\n")
    (tmp_path / "held_out.jsonl").write_text("not json\n")
    (tmp_path / "critic").mkdir()
    (tmp_path / "critic/config.json").write_text("{}")
    changes = {
        "eval.dataset": str(tmp_path / "held_out.jsonl"),
        "algo.advantage.estimator": "gae",
        "critic.model_name_or_path": str(tmp_path / "critic"),
    }
    with pytest.raises(ConfigError) as caught:
        check(flags | changes)
    problems = caught.value.problems
    assert len(problems) == 4
    for part in ("critic", "no_such_module", "prompts.jsonl:2", "held_out.jsonl:1"):
        assert any(part in problem for problem in problems), part
    assert all("\n" not in problem for problem in problems)


def test_a_blend_of_very_uneven_shares_is_refused_at_once(flags, tmp_path):
    """1000 rows at one in a billion would take 10^12 draws until they are used up."""
    (tmp_path / "rare.jsonl").write_text('{"input": "x"}\n' * 1000)
    both = f"{flags['data.prompt_dataset']},{tmp_path / 'rare.jsonl'}"
    changes = {"data.prompt_dataset": both, "data.prompt_probs": "0.999999999,0.000000001", "data.max_samples": 10**12}
    with pytest.raises(ConfigError, match="are drawn from 1003"):
        check(flags | changes)
    assert len(check(flags | changes | {"data.max_samples": 50}).prompts) == 50


def test_an_unknown_environment_is_refused_with_the_known_ones(flags, tmp_path):
    (tmp_path / "prompts.jsonl").write_text('{"input": "a", "env_func": "chess"}\n')
    with pytest.raises(ConfigError) as caught:
        check(flags)
    (line,) = caught.value.problems
    assert "is called 'chess'" in line
    assert "math_tir_async" in line


def test_flags_of_episodes_without_any_are_told(flags, tmp_path, caplog):
    changes = {"env.code.rounds": 3, "env.server": "http://here"}
    check(flags | changes)
    (line,) = caplog.messages
    assert line == "--env.code.rounds: no effect, since no prompt names an environment (env_func)"
    caplog.clear()
    (tmp_path / "prompts.jsonl").write_text('{"input": "a", "env_func": "math_tir_async"}\n')
    check(flags | changes | {"env.code.port": 1})
    assert caplog.messages == []


@pytest.fixture(scope="module")
def seeing_model(tmp_path_factory):
    """A vision-language model folder without weights."""
    folder = tmp_path_factory.mktemp("seeing")
    tiny_idefics3_config().save_pretrained(folder)
    tiny_idefics3_processor().save_pretrained(folder)
    return folder


@pytest.fixture
def with_images(flags, seeing_model, tmp_path):
    (tmp_path / "red.png").write_bytes(file_of(plain("red")))
    (tmp_path / "prompts.jsonl").write_text('{"input": "is <image> red", "images": "red.png"}\n{"input": "no"}\n')
    return flags | {"actor.model_name_or_path": str(seeing_model), "data.max_images_per_prompt": 1}


@pytest.mark.parametrize("chat", [False, True])
def test_images_are_read_with_the_prompts(with_images, caplog, chat):
    with caplog.at_level(logging.WARNING):
        inputs = check(with_images | {"data.apply_chat_template": chat})
    expected = "user: is <image> redassistant: " if chat else "is <image> red"
    assert (inputs.prompts[0].text, len(inputs.prompts[0].images), inputs.prompts[1].images) == (expected, 1, ())
    assert inputs.cut == frozenset()
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        # 7 characters of text and 7 tokens of image (4 and 3 around them): 14, one over 13 = 17 - 4.
        (
            {"data.max_len": 17, "rollout.max_new_tokens": 4},
            "prompts.jsonl:1 ('is <image> red', images: red.png) has 14 tokens with its images, and only 13 are left",
        ),
        ({"data.max_images_per_prompt": 0}, "shows 1 images, but --data.max_images_per_prompt is 0"),
    ],
)
def test_images_that_cannot_be_used_are_one_line(with_images, changes, says):
    with pytest.raises(ConfigError) as caught:
        check(with_images | changes)
    (line,) = caught.value.problems
    assert says in line


def test_the_processors_chat_template_is_the_models(with_images, seeing_model, tmp_path):
    """In older folders it lies in chat_template.json, where tokenizers do not look, and theirs may be for text only."""
    folder = shutil.copytree(seeing_model, tmp_path / "older")
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").unlink()
    changes = with_images | {"actor.model_name_or_path": str(folder), "data.apply_chat_template": True}
    with pytest.raises(ConfigError, match="the model has no chat template"):
        check(changes)
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    assert check(changes).prompts[0].text == "user: is <image> redassistant: "
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["chat_template"] = "{{ messages[0]['content'] }}"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert check(changes).prompts[0].text == "user: is <image> redassistant: "
    (folder / "chat_template.json").unlink()
    with pytest.raises(ConfigError, match=r"prompts.jsonl:1: the chat template is for text only"):
        check(changes)


def test_an_image_that_the_processor_refuses_is_one_line(with_images, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise ValueError("absolute aspect ratio must be smaller than 200, got 750.0")

    monkeypatch.setattr(Idefics3Processor, "__call__", refuse)
    (tmp_path / "held_out.jsonl").write_text('{"input": "no"}\n{"input": "<image>?", "images": ["red.png"]}\n')
    with pytest.raises(ConfigError) as caught:
        check(with_images)
    reason = "red.png: the model's processor refuses it: absolute aspect ratio must be smaller than 200, got 750.0"
    name = f"{tmp_path}/prompts.jsonl:1 ('is <image> red', images: red.png)"
    assert caught.value.problems == (f"{name}: {reason}",)
    (tmp_path / "prompts.jsonl").write_text('{"input": "no"}\n')
    with pytest.raises(ConfigError) as caught:
        check(with_images | {"eval.dataset": str(tmp_path / "held_out.jsonl")})
    name = f"{tmp_path}/held_out.jsonl:2 ('<image>?', images: red.png)"
    assert caught.value.problems == (f"{name}: {reason}",)


def test_images_that_the_run_does_not_show_are_told_once(with_images, model, tmp_path, caplog):
    (tmp_path / "prompts.jsonl").write_text('{"input": "is it red", "images": "red.png"}\n{"input": "no"}\n')
    line = (
        f"{tmp_path}/prompts.jsonl: its column 'images' is not used, for this run shows no images: to show them, take "
        "a vision-language model and set --data.max_images_per_prompt"
    )
    for name in (str(model), with_images["actor.model_name_or_path"]):
        caplog.clear()
        check(with_images | {"actor.model_name_or_path": name, "data.max_images_per_prompt": 0})
        assert caplog.messages == [line]
    caplog.clear()
    (tmp_path / "prompts.jsonl").write_text('{"input": "no"}\n')
    check(with_images | {"data.max_images_per_prompt": 0})
    assert caplog.messages == []


def test_an_image_key_that_no_dataset_has_is_refused(with_images, tmp_path):
    (tmp_path / "prompts.jsonl").write_text('{"input": "is it red", "images": "red.png"}\n')
    (tmp_path / "held.jsonl").write_text('{"input": "no"}\n')
    mistyped = with_images | {"data.image_key": "imgs"}
    with pytest.raises(ConfigError) as caught:
        check(mistyped)
    (line,) = caught.value.problems
    assert line == f"{tmp_path}/prompts.jsonl: no column 'imgs' (--data.image_key); its columns are input, images"
    with pytest.raises(ConfigError, match="nor has any other of the 2 datasets; its columns are input, images"):
        check(mistyped | {"eval.dataset": str(tmp_path / "held.jsonl")})
    (tmp_path / "held.jsonl").write_text('{"input": "no", "imgs": null}\n')
    check(mistyped | {"eval.dataset": str(tmp_path / "held.jsonl")})
    (tmp_path / "prompts.jsonl").write_text('{"input": "no"}\n')
    check(with_images)  # the default, which nobody has typed


def reference(folder, processor):
    """Flags of a run with a reference model: its config, and this processor."""
    tiny_idefics3_config().save_pretrained(folder)
    processor.save_pretrained(folder)
    return {"algo.kl.init_coef": 0.1, "ref.model_name_or_path": str(folder)}


def test_a_reference_that_cuts_images_otherwise_is_refused(with_images, tmp_path):
    # The actor's 7 tokens: 4 of one tile, and 3 around them. The other processor scales 30 x 20 up to 2 x 2 tiles, each
    # a mark, the 13 characters of `<row_1_col_1>` and 4 tokens; then 3 line breaks, and an overview of 7 as before.
    other = with_images | reference(tmp_path / "tiles", tiny_idefics3_processor(tiles=True))
    with pytest.raises(ConfigError) as caught:
        check(other)
    (line,) = caught.value.problems
    assert line.startswith(
        f"--ref.model_name_or_path {tmp_path}/tiles: its processor makes {4 * (1 + 13 + 4) + 3 + 7} tokens of image "
        "red.png, the actor's 7"
    )
    check(other | {"algo.kl.init_coef": 0.0})  # no reference is loaded
    check(with_images | reference(tmp_path / "same", tiny_idefics3_processor()))


def test_the_images_of_an_agent_count_too(with_images, tmp_path):
    (tmp_path / "prompts.jsonl").write_text('{"input": "no"}\n')
    other = with_images | reference(tmp_path / "tiles", tiny_idefics3_processor(tiles=True))
    check(other)  # no image is ever shown
    (tmp_path / "agent.py").write_text(
        "from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor\n\n\n"
        "class Agent(AgentInstanceBase):\n    pass\n\n\n"
        "class AgentExecutor(MultiTurnAgentExecutor):\n"
        "    def __init__(self):\n        super().__init__(Agent)\n"
    )
    with pytest.raises(ConfigError, match="of image of 64 x 64 pixels, the actor's 7"):
        check(other | {"train.agent_func_path": str(tmp_path / "agent.py"), "reward.remote_url": None})


def test_a_reference_of_text_is_refused_with_images(with_images, model):
    changes = {"algo.kl.init_coef": 0.1, "ref.model_name_or_path": str(model)}
    with pytest.raises(ConfigError) as caught:
        check(with_images | changes)
    (line,) = caught.value.problems
    assert line.startswith(f"--ref.model_name_or_path {model}: llama is a text model, and with --data.max_images_per_")


def test_a_model_that_takes_no_images_is_refused(flags):
    with pytest.raises(ConfigError) as caught:
        check(flags | {"data.max_images_per_prompt": 1})
    (line,) = caught.value.problems
    assert "--data.max_images_per_prompt is set, but llama is a text model" in line
    assert "take one of idefics3" in line


@pytest.mark.parametrize("images", [0, 1])
def test_a_vision_language_model_without_an_entry_is_refused_for_text_too(flags, model, tmp_path, images):
    # Loaded as a causal LM, Qwen3.5 is its language model alone: its weights have other names than the engine's.
    assert MODEL_FOR_CAUSAL_LM_MAPPING[Qwen3_5Config].__name__ == "Qwen3_5ForCausalLM"
    folder = shutil.copytree(model, tmp_path / "qwen3_5")
    Qwen3_5Config().save_pretrained(folder)
    with pytest.raises(ConfigError) as caught:
        check(flags | {"actor.model_name_or_path": str(folder), "data.max_images_per_prompt": images})
    (line,) = caught.value.problems
    assert line.startswith(f"model '{folder}': qwen3_5 is a vision-language model without an entry here")
    assert "take one of idefics3, qwen2_5_vl, qwen3_vl" in line


def test_images_for_an_environment_of_text_are_refused(with_images, tmp_path):
    row = '{"input": "<image>", "images": "red.png", "env_func": "math_tir_generate", "task": "math"}\n'
    (tmp_path / "prompts.jsonl").write_text(row)
    with pytest.raises(ConfigError, match="environment math_tir_generate: 1 of its prompts have images"):
        check(with_images)


def openai_agent(folder) -> dict[str, str | None]:
    """Flags that name an agent of the OpenAI-style server."""
    (folder / "agent.py").write_text(
        "from openrlhf.utils.agent import OpenAIServerAgentExecutor\n\n\n"
        "class AgentExecutor(OpenAIServerAgentExecutor):\n"
        "    async def run_agent(self, **kwargs):\n        return {'reward': 1.0}\n"
    )
    return {"train.agent_func_path": str(folder / "agent.py"), "reward.remote_url": None}


def test_images_for_the_openai_style_server_are_refused(with_images, tmp_path):
    with pytest.raises(ConfigError, match="1 prompts have images, and the OpenAI-style server takes text only"):
        check(with_images | openai_agent(tmp_path))


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        (None, "AgentExecutor: the model has no chat template"),
        ("{{ bos_token }}", "AgentExecutor: the model's chat template prints nothing of a user's message"),
        ("{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}", None),
    ],
)
def test_a_template_that_the_openai_style_server_cannot_use_is_refused(flags, tmp_path, template, problem):
    tokenizer = make_tiny_tokenizer()
    tokenizer.chat_template = template
    tiny_llama_config().save_pretrained(tmp_path / "own")
    tokenizer.save_pretrained(tmp_path / "own")
    changes = openai_agent(tmp_path) | {"actor.model_name_or_path": str(tmp_path / "own")}
    if problem is None:
        check(flags | changes)
        return
    with pytest.raises(ConfigError) as caught:
        check(flags | changes)
    (line,) = caught.value.problems
    assert line.startswith(problem)


def test_a_model_that_cannot_be_split_is_refused(flags):
    with pytest.raises(ConfigError) as error:
        check(flags | {"vllm.tensor_parallel_size": 3, "train.colocate_all": False})
    (line,) = error.value.problems
    assert "its 4 attention heads cannot be split over --vllm.tensor_parallel_size 3" in line
