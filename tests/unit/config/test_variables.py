"""Environment variables that stand for a flag."""

import pytest

from openrlhf.config.ppo import PPOConfig
from openrlhf.config.schema import flags, given
from openrlhf.config.variables import VARIABLES, WITHOUT_EFFECT, with_variables

# Seed 001's script exports these; the values are its own.
SEED = {
    "MAX_CONCURRENT": "512",
    "TASK_MAX_CONCURRENT": "32",
    "ENV_ITER_NUM": "2",
    "MAX_COMPILE_RETRIES": "2",
    "CODE_CONCURRENT": "32",
    "COMPILE_SERVER_PORT": "10003",
    "NGINX_IP_FILE": "proxy.txt",
    "OPENRLHF_ASYNC_QUEUE_SIZE": "1",
    "NCCL_TIMEOUT": "36000000",
}


def test_every_variable_names_a_flag():
    assert set(VARIABLES.values()) <= set(flags())
    assert len(set(VARIABLES.values())) == len(VARIABLES)


def test_the_variables_of_the_seed_set_their_flags():
    config, warnings, problems = with_variables(PPOConfig(), SEED)
    assert (warnings, problems) == ([], [])
    assert (config.env.max_generations, config.env.max_episodes, config.env.proxy_file) == (512, 32, "proxy.txt")
    code = config.env.code
    assert (code.rounds, code.max_retries, code.max_concurrent, code.port) == (2, 2, 32, 10003)
    assert (config.train.async_queue_size, config.cluster.collective_timeout) == (1, 36_000_000.0)
    assert given(config) == {VARIABLES[name] for name in SEED}  # as if they were typed


def test_a_given_flag_beats_its_variable():
    asked = PPOConfig.model_validate({"env": {"code": {"rounds": 3, "port": 1}}})
    config, warnings, problems = with_variables(asked, {"ENV_ITER_NUM": "2", "COMPILE_SERVER_PORT": "1"})
    assert (config.env.code.rounds, config.env.code.port) == (3, 1)
    assert warnings == ["ENV_ITER_NUM=2 has no effect: --env.code.rounds 3 is given"]
    assert problems == []


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_variable_counts_as_unset(text):
    assert with_variables(PPOConfig(), {"ENV_ITER_NUM": text}) == (PPOConfig(), [], [])


@pytest.mark.parametrize(("text", "expected"), [("YES", True), ("no", False)])
def test_switches_say_yes_or_no(text, expected):
    config, _, problems = with_variables(PPOConfig(), {"MULTITURN_CODE_MERGE": text})
    assert (config.env.code.merge_rounds, problems) == (expected, [])


@pytest.mark.parametrize(("text", "expected"), [("0.1", True), ("0", False), ("-1", False), ("0.0", False)])
def test_switches_of_older_scripts_are_numbers(text, expected):
    config, _, problems = with_variables(PPOConfig(), {"OVER_LONG_REWARD": text, "PATTERN_REWARD": "0.5"})
    assert (config.env.terms.overlong_enable, config.env.terms.pattern_bonus, problems) == (expected, 0.5, [])


def test_what_is_no_value_is_a_problem_that_names_variable_and_flag(problems):
    lines = problems(environ={"CODE_CONCURRENT": "many", "MULTITURN_CODE_MERGE": "perhaps", "ENV_ITER_NUM": "-1"})
    assert any(line.startswith("CODE_CONCURRENT=many: 'many' is no whole number") for line in lines)
    assert any(line.endswith("it stands for --env.code.merge_rounds") for line in lines)
    assert any(line.startswith("--env.code.rounds -1") for line in lines)


def test_what_has_no_counterpart_is_told():
    _, warnings, problems = with_variables(PPOConfig(), {"MAX_VLLM_BATCHSIZE": "4", "DEBUG_FLAG": ""})
    assert warnings == [f"MAX_VLLM_BATCHSIZE=4 has no effect: {WITHOUT_EFFECT['MAX_VLLM_BATCHSIZE']}"]
    assert problems == []
    assert not set(WITHOUT_EFFECT) & set(VARIABLES)
