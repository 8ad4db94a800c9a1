"""Flags of the evaluation command, from the command line to a checked config. Names are those of training."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from openrlhf.config.base import Section
from openrlhf.config.bounds import bound_problems
from openrlhf.config.command_line import read_command
from openrlhf.config.context import context_problems
from openrlhf.config.disk import expanded, is_file
from openrlhf.config.env import EnvConfig
from openrlhf.config.env_rules import ENV_IDLE, overlong_problems, service_problems
from openrlhf.config.errors import ConfigError
from openrlhf.config.idle import ONE_TOKENIZER
from openrlhf.config.idle_flag import idle_lines, idle_reasons
from openrlhf.config.machine import Machine, detect_machine
from openrlhf.config.reward import RewardConfig
from openrlhf.config.rollout import VllmConfig
from openrlhf.config.schema import flags, values
from openrlhf.config.template import choose_template
from openrlhf.config.train import ParamDtype
from openrlhf.config.variables import with_variables

PROGRAM = "evaluate"


class EvaluatedModel(Section):
    """The model, where it is to be run here."""

    model_name_or_path: str | None = None
    """Hugging Face name or local folder of the model, which vLLM then runs. None: endpoint.url serves it."""


class EndpointConfig(Section):
    """The model, where somebody serves it already."""

    url: str | None = None
    """Address of an OpenAI-style server with /completions, e.g. http://host:8000/v1."""
    model: str | None = None
    """Name that the server knows the model by. None: the first of its list."""
    tokenizer: str | None = None
    """Hugging Face name or local folder of the model's tokenizer. Required with endpoint.url."""
    key: str | None = None
    """API key, sent as a bearer token and never written to disk."""
    max_concurrent: int = 64
    """Requests that the server gets at the same time."""
    timeout: float = 600.0
    """Seconds that one request may take."""


class EvaluatedPrompts(Section):
    """What is asked, and how often."""

    dataset: str | None = None
    """Prompts: file, folder or hub name; commas separate several. Required."""
    split: str = "train"
    """Split of the datasets, e.g. `test` or `train[:1%]`."""
    max_samples: int | None = None
    """Use at most this many prompts. None: all."""
    n_samples_per_prompt: int = 4
    """Samples of each prompt: the n of mean@n."""
    temperature: float = 0.6
    """Sampling temperature; 0 is greedy."""
    top_p: float = 1.0
    """Sampling keeps the most likely tokens up to this probability mass, over 0 to 1."""
    pass_at: tuple[int, ...] = (1,)
    """The k of pass@k, each at most n_samples_per_prompt."""
    pass_threshold: float = 0.5
    """A sample passes if its score is above this."""
    confidence: float = 0.95
    """Probability that the intervals are made for."""
    timeout: float = 14400.0
    """Seconds in which at least one prompt must be finished, with all its samples; else the evaluation ends."""
    env_func: str | None = None
    """Environment for every prompt, e.g. math_tir_async, whatever the dataset says. None: as each prompt says."""


class EvaluatedData(Section):
    """How rows become prompts."""

    input_key: str = "input"
    """Field of a row that holds the prompt."""
    label_key: str | None = None
    """Field of a row that holds the label for the reward. None: labels are empty."""
    input_template: str | None = None
    """Text with one `{}` into which a prompt is put, when no chat template is used."""
    apply_chat_template: bool = False
    """Render prompts with the model's chat template: its processor's where that has one, else its tokenizer's."""
    max_len: int = 2048
    """Tokens of prompt and response together."""
    disable_fast_tokenizer: bool = False
    """No effect: transformers 5 has one tokenizer for each model, the fast one where there is one."""


class EvaluatedRollout(Section):
    """The responses."""

    max_new_tokens: int | None = None
    """Tokens that one response may have. None: what data.max_len leaves after the prompt."""


class EvaluatedTrain(Section):
    """What a training run would call its own."""

    agent_func_path: str | None = None
    """Python file with a class `AgentExecutor` that runs and scores the episodes. None: one response per prompt."""
    seed: int = 42
    """Seed of the sampling and of the intervals."""


class EvaluatedReward(Section):
    """Where scores come from; prompts that name a task are graded by it."""

    remote_url: str | None = None
    """Python file with `reward_func`, or addresses of reward servers. None: tasks or the agent give the scores."""
    max_concurrent: int = 32
    """Calls of `reward_func` that are at work at once, in as many threads."""


class EvaluatedVllm(Section):
    """The engine, with actor.model_name_or_path."""

    tensor_parallel_size: int = 1
    """GPUs (on CPU: processes) over which the engine splits its weights. It must divide the model's attention
    heads."""
    enable_prefix_caching: bool = True
    """Reuse the key-value cache of shared prompt beginnings."""
    enforce_eager: bool = False
    """Do not compile or capture CUDA graphs."""
    gpu_memory_utilization: float = 0.9
    """Share of a GPU's memory that the engine may take, over 0 to 1."""
    max_num_seqs: int = 128
    """Requests that the engine decodes at the same time."""
    dtype: ParamDtype | None = None
    """Number format of the weights. None: bf16, and fp32 on a CPU without bf16 instructions."""
    cpu_kv_cache_gb: int = 1
    """Memory of the key-value cache on CPU, in whole GiB, all parts together."""


class EvaluateConfig(Section):
    """Evaluate a model, or a served endpoint, on datasets: single responses, agents, or environments."""

    actor: EvaluatedModel = EvaluatedModel()
    endpoint: EndpointConfig = EndpointConfig()
    eval: EvaluatedPrompts = EvaluatedPrompts()
    data: EvaluatedData = EvaluatedData()
    rollout: EvaluatedRollout = EvaluatedRollout()
    train: EvaluatedTrain = EvaluatedTrain()
    reward: EvaluatedReward = EvaluatedReward()
    vllm: EvaluatedVllm = EvaluatedVllm()
    env: EnvConfig = EnvConfig()
    output_dir: str | None = None
    """Folder for responses.jsonl, summary.json and config.yaml. Required."""
    overwrite: bool = False
    """Allow an output_dir that already holds files; files of the same name are replaced."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the model runs. auto: on the GPU if there is one."""

    def engine(self) -> VllmConfig:
        """The engine's settings as the engine knows them; of a resolved config."""
        return VllmConfig(num_engines=1, **self.vllm.model_dump())

    def source(self) -> RewardConfig:
        """Where scores come from, as training says it; an agent gives its own."""
        reward = RewardConfig(**self.reward.model_dump())
        return reward.model_copy(update={"remote_url": None}) if self.train.agent_func_path else reward


class EvaluateCommand(NamedTuple):
    """A checked config, and what its user should know."""

    config: EvaluateConfig
    warnings: tuple[str, ...]


def parse_evaluate(
    argv: Sequence[str], environ: Mapping[str, str] | None = None, machine: Machine | None = None
) -> EvaluateCommand:
    """Read the words after the program's name; ConfigError holds all problems; `--help` prints and exits.

    `environ`: variables that stand for a flag (config/variables.py). `machine`: what to run on, detected when None.
    """
    config, line = read_command(argv, EvaluateConfig, PROGRAM)
    typed = frozenset(line.settings)
    config, warnings, problems = with_variables(config, environ or {}, typed)
    warnings = [*line.warnings, *warnings]
    machine = machine or detect_machine(count_gpus=config.device != "cpu")
    template = choose_template(config.data.input_template, config.data.apply_chat_template)
    config = config.model_copy(update={"data": config.data.model_copy(update={"input_template": template.used})})
    warnings += template.warnings
    problems += [*_problems(config), *_device_problems(config, machine), *template.problems]
    if problems:
        raise ConfigError(problems)
    warnings += _idle(config, typed)
    warnings += idle_lines(idle_reasons(ENV_IDLE, config), config, typed | _changed(config))
    return EvaluateCommand(_resolved(config, machine), tuple(warnings))


def _problems(config: EvaluateConfig) -> list[str]:
    model, endpoint, asked = config.actor.model_name_or_path, config.endpoint, config.eval
    k = [k for k in asked.pass_at if not 1 <= k <= asked.n_samples_per_prompt]
    new, length = config.rollout.max_new_tokens, config.data.max_len
    checks = {
        "--actor.model_name_or_path or --endpoint.url is missing: name a model to run, or an address that serves it": (
            model is None and endpoint.url is None
        ),
        "--actor.model_name_or_path and --endpoint.url: give only one of them": bool(model and endpoint.url),
        "--endpoint.tokenizer is missing: the tokenizer of the model that --endpoint.url serves": (
            endpoint.url is not None and endpoint.tokenizer is None
        ),
        f"--endpoint.url {endpoint.url}: write it like http://host:8000/v1": (
            endpoint.url is not None and not endpoint.url.startswith(("http://", "https://"))
        ),
        "--eval.dataset is missing: a file, folder or hub name of the prompts": asked.dataset is None,
        "--output_dir is missing: a folder for responses and summary": config.output_dir is None,
        f"--eval.pass_at {k}: must be from 1 to --eval.n_samples_per_prompt {asked.n_samples_per_prompt}": bool(k),
        f"--rollout.max_new_tokens {new}: must be below --data.max_len {length}, which counts the prompt too": (
            new is not None and new >= length
        ),
    }
    lines = [line for line, wrong in checks.items() if wrong]
    limit = ("--rollout.max_new_tokens", new) if new else ("--data.max_len", length)
    lines += overlong_problems(config.env, *limit)
    return [*lines, *bound_problems(config), *service_problems(config.env), *_context_problems(config)]


def _context_problems(config: EvaluateConfig) -> list[str]:
    model = config.actor.model_name_or_path
    file = None if model is None else expanded(model) / "config.json"
    if model is None or file is None or not is_file(file):  # a hub name, or a folder that the command cannot open
        return []
    return context_problems("actor.model_name_or_path", model, file, config.data.max_len)


def _device_problems(config: EvaluateConfig, machine: Machine) -> list[str]:
    if config.endpoint.url is not None:
        return []
    problems = []
    if config.device == "cuda" and not machine.num_gpus:
        problems.append("--device cuda: torch sees no GPU on this machine; use --device cpu")
    on_cpu = config.device == "cpu" or not machine.num_gpus
    if on_cpu and config.vllm.dtype == "fp16":
        problems.append("--vllm.dtype fp16: not on CPU; use bf16 or fp32")
    return problems


def _idle(config: EvaluateConfig, typed: frozenset[str]) -> list[str]:
    """Flags that were typed and do nothing."""
    served = config.endpoint.url is not None
    reasons = {
        "data.disable_fast_tokenizer": ONE_TOKENIZER if config.data.disable_fast_tokenizer else None,
        "vllm.": "the model is served elsewhere" if served else None,
        "device": "the model is served elsewhere" if served else None,
        "endpoint.": None if served else "--endpoint.url is not set",
        "reward.remote_url": "--train.agent_func_path gives the scores" if config.train.agent_func_path else None,
        "reward.max_concurrent": None if config.source().is_function else "the scores come from no Python file",
    }
    return [
        f"--{path} has no effect: {reason}"
        for path in sorted(typed)
        for start, reason in reasons.items()
        if reason and path.startswith(start)
    ]


def _changed(config: EvaluateConfig) -> set[str]:
    """Flags that are not at their default: given, or filled in from a variable."""
    known = flags(EvaluateConfig)
    return {path for path, value in values(config).items() if value != known[path].default}


def _resolved(config: EvaluateConfig, machine: Machine) -> EvaluateConfig:
    device = config.device if config.device != "auto" else "cuda" if machine.num_gpus else "cpu"
    slow = device == "cpu" and not machine.cpu_has_bf16
    dtype = config.vllm.dtype or ("fp32" if slow else "bf16")
    return config.model_copy(update={"device": device, "vllm": config.vllm.model_copy(update={"dtype": dtype})})
