import pytest

from deepgym.exceptions import SandboxTimeoutError
from deepgym.integrations.verl import NoVerdictError, create_verl_reward
from deepgym.models import ErrorType
from tests.deepgym_fakes import environment, no_verdict, verdict


class OneRun:
    def __init__(self, end):
        self.end, self.answer = end, None

    def run(self, env, answer):
        self.answer = answer
        if isinstance(self.end, Exception):
            raise self.end
        return self.end


def test_a_verdict_is_the_score():
    gym = OneRun(verdict(0.5))
    score = create_verl_reward(environment(), gym)(
        "coins", "```py\na\n```", "unused", extra_info={"index": 1}, reward_router_address=None
    )
    assert score == {"score": 0.5, "passed": 0.0, "case_pass_rate": 0.5}
    assert gym.answer == "a\n"


def test_a_crash_is_judged():
    crash = verdict(0.0, cases=(), error_type=ErrorType.SOLUTION_ERROR)
    assert create_verl_reward(environment(), OneRun(crash))("coins", "a")["case_pass_rate"] == 0.0


@pytest.mark.parametrize(
    ("end", "error_type"),
    [
        (SandboxTimeoutError("no answer"), "timeout"),
        (no_verdict(ErrorType.VERIFIER_ERROR), "verifier_error"),
        (ConnectionResetError("provider gone"), "unknown_error"),
        (RuntimeError("this DeepGym is closed"), "unknown_error"),
    ],
)
def test_no_verdict_is_raised_and_never_zero(end, error_type):
    with pytest.raises(NoVerdictError, match=error_type) as raised:
        create_verl_reward(environment(), OneRun(end))("coins", "a")
    assert raised.value.error_type == error_type
    assert raised.value.__cause__ is (end if isinstance(end, Exception) else None)
    assert str(raised.value) == f"add: a sample has no verdict ({error_type})"
