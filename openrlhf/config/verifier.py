"""Flags of the services that judge answers for task rewards."""

from openrlhf.config.base import Section


class VerifierConfig(Section):
    """Who says whether an answer is right. A verifier that fails leaves its sample without a verdict."""

    math_port: int | None = None
    """Port of a math-verify service (serve_math_verify) at the address in env.proxy_file or env.server. None: compare
    answers in worker processes of the engine's own."""
    math_url: str | None = None
    """Address of another service, asked as POST {math_url}/verify with `gold` and `answer`; goes before math_port."""
    math_key: str = "score"
    """Key of a service's answer that holds the score."""
    math_fail_score: float = -10000.0
    """A score that means: no verdict."""
    judge_enable: bool = False
    """Also ask a language model whether an answer is right; the better of both verdicts counts."""
    judge_port: int | None = None
    """Port of an OpenAI-style server of the judging model at the address in env.proxy_file or env.server."""
    judge_timeout: float = 5.0
    """Seconds for one try at the judging model."""
    math_timeout: float = 10.0
    """Seconds for one try at a math-verify service."""
    max_retries: int = 3
    """Tries at a service before a sample has no verdict from it."""
