"""Environment variables that stand for a flag: the one table of them, for training and evaluation alike.

A flag that is given beats its variable, with a warning where they differ. An empty variable counts as unset.
"""

from collections.abc import Mapping
from typing import TypeVar

from openrlhf.config.base import Section
from openrlhf.config.check_words import brief, check_words
from openrlhf.config.schema import Flag, flags, flatten, nest, shown, values
from openrlhf.config.tokens import Given

C = TypeVar("C", bound=Section)

VARIABLES: dict[str, str] = {
    "MAX_CONCURRENT": "env.max_generations",
    "TASK_MAX_CONCURRENT": "env.max_episodes",
    "MAX_RETRIES": "env.max_retries",
    "REQUEST_TIMEOUT": "env.request_timeout",
    "NGINX_IP_FILE": "env.proxy_file",
    "REMOTE_SERVER": "env.server",
    "ENV_ITER_NUM": "env.code.rounds",
    "CODE_CONCURRENT": "env.code.max_concurrent",
    "MAX_COMPILE_RETRIES": "env.code.max_retries",
    "COMPILE_SERVER_PORT": "env.code.port",
    "MULTITURN_CODE_MERGE": "env.code.merge_rounds",
    "MATH_VERIFY_SERVER_PORT": "env.verifier.math_port",
    "MATH_SERVER": "env.verifier.math_url",
    "MATH_KEY": "env.verifier.math_key",
    "MATH_FAIL_SCORE": "env.verifier.math_fail_score",
    "USE_MODEL_REWARD": "env.verifier.judge_enable",
    "XVERIFY_MATH_MODEL_SERVER_PORT": "env.verifier.judge_port",
    "USE_FORMAT_REWARD": "env.terms.format_enable",
    "USE_TIR_FORMAT_LOOSE": "env.terms.format_loose",
    "OVER_LONG_REWARD": "env.terms.overlong_enable",
    "QUALITY_REWARD": "env.terms.quality_enable",
    "USE_SHORTCUT_REWARD": "env.terms.shortcut_enable",
    "CONDITIONAL_TOOL_REWARD": "env.terms.tool_bonus",
    "PATTERN_REWARD": "env.terms.pattern_bonus",
    "CODE_EXECTION_REWARD": "env.terms.code_errors_enable",
    "OPENRLHF_ASYNC_QUEUE_SIZE": "train.async_queue_size",
    "NCCL_TIMEOUT": "cluster.collective_timeout",
}


# Variables of older scripts that say nothing to this project, and why.
WITHOUT_EFFECT: dict[str, str] = {
    "MAX_VLLM_BATCHSIZE": "prompts go to the engines one by one, each to the one with the fewest samples in flight",
    "ROBERTA_PATH": "repetition is counted in words, without a tokenizer model",
    "SYNLOGIC_PATH": "the puzzles come from the package reasoning-gym",
    "DEBUG_FLAG": "every step keeps samples in the run folder; see --logger.num_rollouts_stored",
}

_NUMBER = Flag("", "float", 1, (), False, 0.0, "")


def with_variables(
    config: C, environ: Mapping[str, str], typed: frozenset[str] | None = None
) -> tuple[C, list[str], list[str]]:
    """(the config with the variables of `environ` filled in as if they were flags, warnings, problems).

    Variables of flags that the command does not have are left alone. `typed`: the flags that were given; None: those
    that are set in the config.
    """
    now, known = values(config), flags(type(config))
    given = flatten(config.model_dump(exclude_unset=True)) if typed is None else {path: now[path] for path in typed}
    found: dict[str, object] = {}
    warnings, problems = [], []
    for name, path in VARIABLES.items():
        text = environ.get(name, "").strip()
        if not text or path not in known:
            continue
        flag = known[path]
        value, fault = _read(flag, text)
        if fault:
            problems.append(f"{name}={brief(text)}: {fault}; it stands for --{path}")
        elif path not in given:
            found[path] = value
        elif now[path] != value:
            warnings.append(f"{name}={brief(text)} has no effect: --{path} {shown(now[path])} is given")
    warnings += [
        f"{name}={brief(environ[name])} has no effect: {reason}"
        for name, reason in WITHOUT_EFFECT.items()
        if environ.get(name, "").strip()
    ]
    if found:
        config = type(config).model_validate(nest(given | found))
    return config, warnings, problems


def _read(flag: Flag, text: str) -> tuple[object, str | None]:
    """(value, fault) of a variable's text."""
    if flag.kind == "bool":
        truth = Given(flag.path, (text,), text).truth()
        if truth is None and check_words(_NUMBER, [text]) is None:  # switches of older scripts: on above 0
            truth = float(text) > 0
        return truth, None if truth is not None else "no truth value; write yes or no"
    fault = check_words(flag, [text])
    if fault:
        return None, fault
    return {"int": int, "float": float, "str": str}[flag.kind](text), None
