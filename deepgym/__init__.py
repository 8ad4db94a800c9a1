"""Verifiable environments, a sandbox that runs untrusted answers, and the reward endpoint that trainers call.

from deepgym import DeepGym, load_environment

result = DeepGym(mode="auto").run(load_environment("coin_change"), code)
"""

from deepgym.core import DeepGym
from deepgym.extract import extract_code
from deepgym.models import BatchResult, Case, CaseOutcome, Environment, ErrorType, Limits, RunResult, Verifier
from deepgym.registry import list_environments, load_environment

__all__ = [
    "BatchResult",
    "Case",
    "CaseOutcome",
    "DeepGym",
    "Environment",
    "ErrorType",
    "Limits",
    "RunResult",
    "Verifier",
    "extract_code",
    "list_environments",
    "load_environment",
]
