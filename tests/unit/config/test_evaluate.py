"""The command line of the evaluation command."""

import pytest

from openrlhf.config.errors import ConfigError
from openrlhf.config.evaluate import EvaluateCommand, EvaluateConfig, parse_evaluate
from openrlhf.config.machine import Machine
from openrlhf.config.schema import flags
from openrlhf.config.yaml_file import to_yaml

BARE = Machine()
LOCAL = "--actor.model_name_or_path model --eval.dataset rows.jsonl --output_dir out"
SERVED = "--endpoint.url http://host:8000/v1 --endpoint.tokenizer model --eval.dataset rows.jsonl --output_dir out"


def parse(line: str, machine: Machine = BARE, **environ: str) -> EvaluateCommand:
    return parse_evaluate(line.split(), environ, machine)


def problems(line: str, machine: Machine = BARE) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(line, machine)
    return list(caught.value.problems)


def test_a_local_model_and_a_served_one():
    config = parse(LOCAL).config
    assert (config.device, config.vllm.dtype, config.engine().num_engines) == ("cpu", "bf16", 1)
    assert parse(LOCAL, Machine(cpu_has_bf16=False)).config.vllm.dtype == "fp32"
    assert parse(LOCAL, Machine(num_gpus=1)).config.device == "cuda"
    assert parse(SERVED).config.endpoint.model is None


def test_variables_and_flags_of_environments_count_here_too():
    environ = {"CODE_CONCURRENT": "5", "ENV_ITER_NUM": "2", "OPENRLHF_ASYNC_QUEUE_SIZE": "9"}
    command = parse(f"{LOCAL} --env.code.rounds 3", **environ)
    assert (command.config.env.code.max_concurrent, command.config.env.code.rounds) == (5, 3)
    assert command.warnings == ("ENV_ITER_NUM=2 has no effect: --env.code.rounds 3 is given",)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--eval.dataset d --output_dir o", "--actor.model_name_or_path or --endpoint.url is missing"),
        (f"{LOCAL} --endpoint.url http://h/v1 --endpoint.tokenizer m", "give only one of them"),
        ("--endpoint.url http://h/v1 --eval.dataset d --output_dir o", "--endpoint.tokenizer is missing"),
        (SERVED.replace("http://host:8000/v1", "host:8000"), "--endpoint.url host:8000: write it like"),
        ("--actor.model_name_or_path m --output_dir o", "--eval.dataset is missing"),
        ("--actor.model_name_or_path m --eval.dataset d", "--output_dir is missing"),
        (f"{LOCAL} --eval.pass_at 1 8", "--eval.pass_at [8]: must be from 1 to --eval.n_samples_per_prompt 4"),
        (f"{LOCAL} --rollout.max_new_tokens 2048", "--rollout.max_new_tokens 2048: must be below --data.max_len 2048"),
        (f"{LOCAL} --eval.n_samples_per_prompt 0", "--eval.n_samples_per_prompt 0: must be at least 1"),
        (f"{LOCAL} --eval.temperature -1", "--eval.temperature -1.0: must be 0 or more"),
        (f"{LOCAL} --rollout.max_new_tokens 0", "--rollout.max_new_tokens 0: must be at least 1"),
        (f"{LOCAL} --endpoint.timeout 0", "--endpoint.timeout 0.0: must be over 0"),
        (f"{LOCAL} --eval.confidence 95", "--eval.confidence 95.0: must be between 0 and 1"),
        (f"{LOCAL} --device cuda", "--device cuda: torch sees no GPU"),
        (f"{LOCAL} --vllm.dtype fp16", "--vllm.dtype fp16: not on CPU"),
        (f"{LOCAL} --eval.topp 1", "--eval.topp is no flag of evaluate; nearest: --eval.top_p"),
        ("--dataset d.jsonl", "--dataset is no flag of evaluate; nearest: --eval.dataset"),
        (f"{LOCAL} --pretrain m", "given twice with different values: --actor.model_name_or_path"),
        (f"{LOCAL} --critic_pretrain m", "--critic_pretrain is no flag of evaluate; "),
        (f"{LOCAL} --device cpu --device cuda", "given twice with different values"),
    ],
)
def test_what_cannot_run_is_refused(line, expected):
    assert any(expected in problem for problem in problems(line))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--env.verifier.judge_enable", "--env.verifier.judge_enable: needs --env.verifier.judge_port, and"),
        ("--env.server foo", "--env.server foo: an address starts with http://"),
        ("--env.code.port 70000", "--env.code.port 70000: must be a port, from 1 to 65535"),
        ("--env.verifier.math_timeout -1", "--env.verifier.math_timeout -1.0: must be over 0"),
        ("--env.max_retries -1", "--env.max_retries -1: must be 0 or more"),
        ("--env.request_timeout inf", "--env.request_timeout inf: must be finite"),
        ("--vllm.gpu_memory_utilization 2", "--vllm.gpu_memory_utilization 2.0: must be over 0 and at most 1"),
    ],
)
def test_the_rules_of_training_hold_here_too(line, expected):
    (problem,) = problems(f"{LOCAL} {line}")
    assert problem.startswith(expected)


def test_flags_of_services_that_nobody_asks_are_told_as_in_training():
    line = f"{LOCAL} --env.verifier.math_port 10008 --env.code.sandbox auto"
    assert parse(line, COMPILE_SERVER_PORT="10003").warnings == (
        "--env.code.port 10003 has no effect: neither --env.proxy_file nor --env.server says where the services are",
        "--env.verifier.math_port 10008 has no effect: neither --env.proxy_file nor --env.server says where the "
        "services are",
    )
    assert parse(f"{line} --env.server http://10.0.0.7").warnings == ()


def test_a_model_of_fewer_positions_is_told_at_once(tmp_path):
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 600}')
    line = LOCAL.replace("model --eval", f"{tmp_path} --eval")
    assert problems(line) == [f"--data.max_len 2048: {tmp_path} knows 600 positions; use at most that"]
    assert parse(f"{line} --data.max_len 600").warnings == ()


def test_flags_without_effect_are_told():
    idle = "--vllm.max_num_seqs 4 --device cpu --train.agent_func_path a.py --reward.remote_url r.py"
    assert parse(f"{SERVED} {idle}").warnings == (
        "--device has no effect: the model is served elsewhere",
        "--reward.remote_url has no effect: --train.agent_func_path gives the scores",
        "--vllm.max_num_seqs has no effect: the model is served elsewhere",
    )
    assert parse(f"{LOCAL} --endpoint.timeout 3").warnings == (
        "--endpoint.timeout has no effect: --endpoint.url is not set",
    )


def test_the_slow_tokenizer_is_no_more():
    (warning,) = parse(f"{LOCAL} --data.disable_fast_tokenizer").warnings
    assert warning.startswith("--data.disable_fast_tokenizer has no effect: ")
    assert parse(f"{LOCAL} --data.no-disable_fast_tokenizer").warnings == ()


def test_the_key_is_written_nowhere():
    assert "sesame" not in to_yaml(parse(f"{SERVED} --endpoint.key sesame").config)
    (problem,) = problems(f"{SERVED} --endpoint.key sesame --endpoint.key other")
    assert "sesame" not in problem


def test_every_flag_has_a_help_text():
    assert [flag.path for flag in flags(EvaluateConfig).values() if not flag.help.endswith(".")] == []


def test_a_template_follows_the_rules_of_training():
    command = parse(f"{LOCAL} --data.input_template plain")
    assert command.config.data.input_template is None
    assert command.warnings == ("--data.input_template 'plain' has no effect: it holds no {} to put the prompt in",)
    command = parse(f"{LOCAL} --data.input_template Q:{{}} --data.apply_chat_template")
    assert command.config.data.input_template is None
    assert any("needs exactly one {}" in line for line in problems(f"{LOCAL} --data.input_template {{}}{{}}"))


def test_an_overlong_penalty_needs_a_limit_over_its_buffer():
    (line,) = problems(f"{LOCAL} --env.terms.overlong_enable --rollout.max_new_tokens 100")
    assert line.startswith(
        "--env.terms.overlong_enable: takes off over the last 512 tokens before the limit, more than"
    )
    assert parse(f"{LOCAL} --env.terms.overlong_enable --rollout.max_new_tokens 512").config.env.terms.overlong_enable
