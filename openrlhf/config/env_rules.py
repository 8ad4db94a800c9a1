"""Rules about the flags of `env`, for every command that has them."""

from typing import Protocol

from openrlhf.config.env import EnvConfig
from openrlhf.config.idle_flag import Idle
from openrlhf.config.terms import OVERLONG_BUFFER


class HasEnv(Protocol):
    """The config of a command that has these flags."""

    @property
    def env(self) -> EnvConfig: ...


_NO_ADDRESS = "neither --env.proxy_file nor --env.server says where the services are"
_MATH_SERVICE = ("env.verifier.math_timeout", "env.verifier.math_key", "env.verifier.math_fail_score")
_JUDGE = ("env.verifier.judge_port", "env.verifier.judge_timeout")

ENV_IDLE: tuple[Idle[HasEnv], ...] = (
    Idle(("env.proxy_file",), lambda c: c.env.server is not None, "--env.server says where the services are"),
    Idle(("env.verifier.math_port", "env.code.port"), lambda c: not c.env.has_address, _NO_ADDRESS),
    Idle(("env.verifier.math_port",), lambda c: c.env.verifier.math_url is not None, "--env.verifier.math_url is used"),
    Idle(_MATH_SERVICE, lambda c: not c.env.has_math_service, "answers are compared in processes of this machine"),
    Idle(_JUDGE, lambda c: not c.env.verifier.judge_enable, "--env.verifier.judge_enable is off"),
    Idle(
        ("env.verifier.max_retries",),
        lambda c: not (c.env.has_math_service or c.env.verifier.judge_enable),
        "no service is asked",
    ),
    Idle(("env.code.compile_timeout",), lambda c: not c.env.has_code_server, "deepgym's sandbox compiles nothing"),
    Idle(("env.code.sandbox",), lambda c: c.env.has_code_server, "a server at --env.code.port runs code"),
)


def service_problems(env: EnvConfig) -> list[str]:
    """What the services that tasks ask lack."""
    problems = []
    if env.verifier.judge_enable and (env.verifier.judge_port is None or not env.has_address):
        problems.append(
            "--env.verifier.judge_enable: needs --env.verifier.judge_port, and --env.proxy_file or --env.server to say "
            "where that port is"
        )
    if env.server is not None and not env.server.startswith(("http://", "https://")):
        problems.append(f"--env.server {env.server}: an address starts with http:// or https://, like http://10.0.0.7")
    return problems


def overlong_problems(env: EnvConfig, flag: str, longest: int) -> list[str]:
    """`flag` says that a response has at most `longest` tokens: below the buffer the penalty would be on every one."""
    if not env.terms.overlong_enable or longest >= OVERLONG_BUFFER:
        return []
    return [
        f"--env.terms.overlong_enable: takes off over the last {OVERLONG_BUFFER} tokens before the limit, more than "
        f"{flag} {longest}; leave it out or use at least {OVERLONG_BUFFER} there"
    ]
