"""Flags of the environments that prompts name by `env_func`, and of the services that they call."""

from typing import Literal

from openrlhf.config.base import Section
from openrlhf.config.terms import TermsConfig
from openrlhf.config.verifier import VerifierConfig


class CodeConfig(Section):
    """Running the code blocks of a policy."""

    port: int | None = None
    """Port of a SandboxFusion-compatible server at the address in env.proxy_file. None: run code in deepgym's sandbox,
    inside the engine's own process."""
    sandbox: Literal["auto", "local", "docker"] = "auto"
    """Kind of deepgym's sandbox: local (bubblewrap), docker, or what this machine has; unused with a server."""
    max_concurrent: int = 2
    """Code blocks that one engine's process runs at the same time."""
    rounds: int = 2
    """Code blocks that one episode may run; after them the policy finishes its answer without."""
    max_retries: int = 3
    """Tries of a code block whose sandbox or server fails."""
    run_timeout: float = 20.0
    """Seconds that a code block may run."""
    compile_timeout: float = 10.0
    """Seconds that a server may take to compile a code block; unused with deepgym's sandbox, which compiles nothing."""
    result_tokens: int = 256
    """Most tokens of a code block's result; a longer one is replaced by a line that says so."""
    merge_rounds: bool = False
    """Run the earlier code blocks of an episode, as far as they had no error, before each new one."""


class EnvConfig(Section):
    """Environments of prompts that name one."""

    max_episodes: int | None = None
    """Episodes that one engine's process runs at the same time. None: all that it is given."""
    max_generations: int | None = None
    """Generations that the episodes of one engine's process have under way at the same time. None: no limit but the
    engine's own."""
    max_retries: int = 10
    """Times that one episode may repeat a generation that was aborted or took too long, before it has no verdict."""
    request_timeout: float | None = None
    """Seconds that one generation of an episode may take; waiting for one of max_generations places does not count.
    None: no limit."""
    proxy_file: str | None = None
    """File whose first line is the address (http://host) of the proxy before the services; read anew at every call, so
    that the proxy may move during a run."""
    server: str | None = None
    """That address itself, instead of proxy_file."""
    code: CodeConfig = CodeConfig()
    verifier: VerifierConfig = VerifierConfig()
    terms: TermsConfig = TermsConfig()

    @property
    def has_address(self) -> bool:
        """Whether it is said where the services are."""
        return self.server is not None or self.proxy_file is not None

    @property
    def has_math_service(self) -> bool:
        """Whether a service compares answers, and not processes of this machine."""
        return self.verifier.math_url is not None or (self.verifier.math_port is not None and self.has_address)

    @property
    def has_code_server(self) -> bool:
        """Whether code goes to a server: it has a port, and an address to look up."""
        return self.code.port is not None and (self.server is not None or self.proxy_file is not None)
