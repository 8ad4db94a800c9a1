"""Inputs are looked for before anything starts; paths that exist become absolute."""

import pytest

RAY_JOB = {"RAY_JOB_CONFIG_JSON_ENV_VAR": "{}"}


def test_existing_paths_become_absolute(resolved, workplace):
    config = resolved({"eval.dataset": "prompts.jsonl", "eval.steps": 1}).config
    assert config.actor.model_name_or_path == str(workplace / "model")
    assert config.ref.model_name_or_path == str(workplace / "model")
    assert config.data.prompt_dataset == str(workplace / "prompts.jsonl")
    assert config.eval.dataset == str(workplace / "prompts.jsonl")
    assert config.reward.remote_url == str(workplace / "reward.py")


def test_inside_a_ray_job_inputs_stay_relative(resolved):
    config = resolved(environ=RAY_JOB | {"OPENRLHF_PATH": "/shared"}).config
    assert config.actor.model_name_or_path == "./model"
    assert config.data.prompt_dataset == "prompts.jsonl"
    assert config.reward.remote_url == "reward.py"


def test_hub_names_stay(resolved):
    changes = {"actor.model_name_or_path": "owner/model", "data.prompt_dataset": "owner/prompts, other/prompts@main"}
    config = resolved(changes).config
    assert config.actor.model_name_or_path == "owner/model"
    assert config.data.prompt_dataset == "owner/prompts,other/prompts@main"


@pytest.mark.parametrize("flag", ["actor.model_name_or_path", "data.prompt_dataset"])
def test_a_missing_flag_is_named(problems, flag):
    (line,) = problems({flag: None})
    assert line.startswith(f"--{flag} is missing")


@pytest.mark.parametrize("path", ["./nowhere", "/nowhere", "~/nowhere-at-all", "a/b/c"])
@pytest.mark.parametrize("flag", ["actor.model_name_or_path", "ref.model_name_or_path"])
def test_a_model_folder_that_is_not_there(problems, flag, path):
    assert problems({flag: path}) == [f"--{flag} {path}: no such folder"]


def test_a_folder_without_a_model(problems, workplace):
    (workplace / "empty").mkdir()
    (line,) = problems({"actor.model_name_or_path": "empty"})
    assert "holds no config.json" in line


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "./" + "x/" * 3000])
@pytest.mark.parametrize("end", ["", ".py"])
@pytest.mark.parametrize(
    "flag",
    ["actor.model_name_or_path", "ref.model_name_or_path", "data.prompt_dataset", "eval.dataset", "reward.remote_url"],
)
def test_a_name_that_no_path_can_have_is_one_short_line(problems, flag, name, end):
    (line,) = problems({"eval.dataset": "prompts.jsonl", "eval.steps": 1, flag: name + end})
    assert line.startswith(f"--{flag} ")
    assert len(line) < 300


def test_a_long_list_of_hub_names_passes(resolved):
    names = ",".join(f"dataset{number}" for number in range(100))
    assert resolved({"data.prompt_dataset": names}).config.data.prompt_dataset == names


def test_a_home_folder_of_nobody_is_no_such_folder(problems):
    (line,) = problems({"actor.model_name_or_path": "~nobody-of-that-name/model"})
    assert line.endswith("no such folder")


def test_sequences_longer_than_the_model(problems):
    (line,) = problems({"data.max_len": 100001})
    assert line.startswith("--data.max_len 100001")
    assert "100000 positions" in line


@pytest.mark.parametrize("spec", ["./none.jsonl", "none.jsonl", "prompts.jsonl,none.csv", "/none"])
def test_a_dataset_that_is_not_there(problems, spec):
    (line,) = problems({"data.prompt_dataset": spec})
    assert line.startswith("--data.prompt_dataset")
    assert line.endswith("no such file or folder")


def test_a_folder_inside_a_dataset(resolved, problems, workplace):
    (workplace / "set/part").mkdir(parents=True)
    assert resolved({"data.prompt_dataset": "set@part"}).config.data.prompt_dataset == f"{workplace / 'set'}@part"
    (line,) = problems({"data.prompt_dataset": "set@other"})
    assert line.endswith("set holds no other")


def test_an_evaluation_set_that_is_not_there(problems):
    (line,) = problems({"eval.dataset": "none.jsonl", "eval.steps": 1})
    assert line.startswith("--eval.dataset none.jsonl")


@pytest.mark.parametrize("probs", ["0.5", "0.5,0.6", "1,0", "a,b", "nan,1"])
def test_probabilities_that_do_not_fit(problems, probs):
    (line,) = problems({"data.prompt_dataset": "prompts.jsonl,owner/x", "data.prompt_probs": probs})
    assert line.startswith(f"--data.prompt_probs {probs}")


def test_probabilities_of_one_dataset_do_nothing(resolved):
    (line,) = resolved({"data.prompt_probs": "1.0"}).warnings
    assert "has no effect" in line


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("none.py", "no such file"),
        ("host:5000", "neither a .py file nor"),
        ("reward.py,http://a", "several sources must all be http addresses"),
        ("ftp://a", "neither a .py file nor"),
    ],
)
def test_a_reward_source_that_cannot_be(problems, source, says):
    (line,) = problems({"reward.remote_url": source})
    assert line.startswith(f"--reward.remote_url {source}")
    assert says in line


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("def other(): ...\n", "defines no reward_func"),
        ("def reward_func(:\n", "cannot be read as Python"),
        ("reward_func(1)\n", "defines no reward_func"),
        ("async def reward_func(q, p, l): ...\n", None),
        ("from m import f as reward_func\n", None),
        ("from m import *\n", None),
        ("reward_func = make()\n", None),
    ],
)
def test_a_reward_file_is_read_but_not_run(resolved, problems, workplace, text, fault):
    (workplace / "reward.py").write_text(text)
    if fault is None:
        resolved()
    else:
        (line,) = problems()
        assert fault in line


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfdef reward_func(q, p, l): ...\n",
        b"# -*- coding: latin-1 -*-\n# caf\xe9\ndef reward_func(q, p, l): ...\n",
    ],
)
def test_a_reward_file_may_have_any_encoding_that_python_takes(resolved, workplace, content):
    (workplace / "reward.py").write_bytes(content)
    resolved()


@pytest.mark.parametrize("content", [b"x = " + b"(" * 5000, b"x = " + b"-" * 200000 + b"1", b"\xe9", b"x\0"])
def test_a_reward_file_that_python_cannot_read_is_one_line(problems, workplace, content):
    (workplace / "reward.py").write_bytes(content)
    (line,) = problems()
    assert "cannot be read as Python: " in line
    assert not line.endswith(": ")


@pytest.mark.parametrize(
    "address",
    [
        *("http://", "http:///x", "http://:5000/x", "http://user@/x"),
        *("http://host:abc/", "http://host:99999/", "http://host:0/", "http://[::1/", "https://a:80:80/"),
        *("http://a b/", "http://a<b>/", "http://good:1,http://bad:port"),
    ],
)
def test_a_malformed_address_is_refused_before_anything_starts(problems, address):
    (line,) = problems({"reward.remote_url": address})
    assert line.startswith("--reward.remote_url ")
    assert "write it like http://host:5000/get_reward" in line


def test_a_malformed_address_shows_no_password(problems):
    (line,) = problems({"reward.remote_url": "http://user:secret@host:port/x"})
    assert "secret" not in line


def test_http_addresses_pass(resolved):
    config = resolved({"reward.remote_url": "http://[::1]:5/x"}).config
    assert config.reward.sources == ("http://[::1]:5/x",)
    config = resolved({"reward.remote_url": "http://a:1/x, https://b"}).config
    assert config.reward.sources == ("http://a:1/x", "https://b")


@pytest.mark.parametrize("source", ["ftp://user:pw@a", "http://user:pw@a,reward.py", "https://user:p@pw@a/x,b"])
def test_a_password_in_an_address_is_not_shown(problems, source):
    (line,) = problems({"reward.remote_url": source})
    assert "pw" not in line
    assert "://***@a" in line


def test_a_comma_in_the_working_directory_cuts_no_path(resolved, workplace):
    root = workplace / "a,b"
    (root / "set/part").mkdir(parents=True)
    for name in ("prompts.jsonl", "reward.py"):
        (root / name).write_bytes((workplace / name).read_bytes())

    def run(**changes):
        return resolved({"actor.model_name_or_path": str(workplace / "model")} | changes, root=root).config

    config = run()
    assert config.reward.sources == (str(root / "reward.py"),)
    assert config.data.prompt_dataset == str(root / "prompts.jsonl")
    # In a list, and with @, the absolute path would be cut at its comma.
    assert run(**{"data.prompt_dataset": "prompts.jsonl,set@part"}).data.prompt_dataset == "prompts.jsonl,set@part"


def test_a_missing_reward_is_seen_when_the_prompts_are_read(resolved):
    assert not resolved({"reward.remote_url": None}).config.reward.is_given  # prompts may name tasks that grade them


AGENT = "class AgentExecutor(MultiTurnAgentExecutor):\n    pass\n"


def test_an_agent_switches_the_other_rewards_off(resolved, workplace):
    (workplace / "agent.py").write_text(AGENT)
    agent = {"train.agent_func_path": "agent.py"}
    given = resolved(agent | {"reward.remote_url": "none.py", "reward.model_name_or_path": "owner/model"})
    assert (given.config.reward.remote_url, given.config.reward.model_name_or_path) == (None, None)
    off = "is switched off: --train.agent_func_path gives the rewards"
    assert f"--reward.remote_url none.py {off}" in given.warnings
    assert f"--reward.model_name_or_path owner/model {off}" in given.warnings
    alone = resolved(agent | {"reward.remote_url": None})
    assert not any("switched off" in line for line in alone.warnings)
    assert alone.config.train.agent_func_path == str(workplace / "agent.py")


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("none.py", None, "--train.agent_func_path none.py: no such file"),
        ("agent", "", "--train.agent_func_path agent: not a .py file"),
        ("agent.py", "class Agent: pass", "--train.agent_func_path agent.py: defines no class AgentExecutor"),
        ("agent.py", "class (", "--train.agent_func_path agent.py: cannot be read as Python: invalid syntax"),
    ],
)
def test_an_agent_file_is_read_but_not_run(problems, workplace, name, text, fault):
    if text is not None:
        (workplace / name).write_text(text)
    (line,) = problems({"train.agent_func_path": name, "reward.remote_url": None})
    assert line.startswith(fault)


def test_full_determinism_ends_at_an_agent(resolved, workplace):
    (workplace / "agent.py").write_text(AGENT)
    given = resolved({"train.agent_func_path": "agent.py", "train.full_determinism_enable": True})
    assert any(line.startswith("--train.full_determinism_enable: each sample has") for line in given.warnings)


@pytest.mark.parametrize(
    "rope",
    [
        '"original_max_position_embeddings": 150, "rope_scaling": {"type": "longrope"}',
        '"rope_parameters": {"rope_type": "longrope", "original_max_position_embeddings": 150}',
    ],
)
def test_lengths_at_which_longrope_turns_every_position_otherwise(problems, resolved, workplace, rope):
    """Measured on a Phi-3 of two layers: a row's logprobs move by 0.1 when a longer row stands beside it."""
    (workplace / "model/config.json").write_text(f'{{"max_position_embeddings": 4096, {rope}}}')
    (line,) = problems({"data.max_len": 200, "rollout.max_new_tokens": 50})
    assert line.startswith("--data.max_len 200: beyond 150 tokens ./model turns the positions of all tokens")
    assert resolved({"data.max_len": 150, "rollout.max_new_tokens": 50}).config.data.max_len == 150
