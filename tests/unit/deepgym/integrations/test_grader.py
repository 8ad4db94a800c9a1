"""The states of a sample on a virtual clock: 150 seconds pass at once."""

import asyncio
import logging
import math
import threading

import pytest

from deepgym.exceptions import SandboxError, SandboxTimeoutError, VerifierError
from deepgym.integrations import grader
from deepgym.integrations.grader import REGRADE_PAUSE_S, Graded, Grader
from deepgym.integrations.slots import Slots
from deepgym.models import ErrorType
from tests.deepgym_fakes import FakeGym, Run, environment, no_verdict, run_virtual, verdict

MASK = -1.0  # no reward that a run could give
DEADLINE = 150.0
BROKEN, SLOW_HOST = SandboxError("the engine is gone"), SandboxTimeoutError("no answer")


def grade(gym: FakeGym, responses, places: int = 32, linger: float = 0.0) -> tuple[list[Graded], float]:
    """The outcomes and the time they took; `linger` lets killed runs end before the loop closes."""

    async def main():
        loop = asyncio.get_running_loop()
        slots = Slots(places)
        graded = await Grader(environment(), gym, MASK, slots).grade(responses, DEADLINE)
        took = loop.time()
        await asyncio.sleep(linger)
        if linger:
            assert (slots.in_use, slots.waiting) == (0, 0)
        return graded, took

    return run_virtual(main())


def summary(graded: Graded) -> tuple[float, str | None, bool]:
    return graded.reward, graded.error_type, graded.masked


def test_a_verdict_is_the_reward():
    gym = FakeGym({"right": [Run(verdict(1.0))], "half": [Run(verdict(0.5))]})
    graded, took = grade(gym, ["right", "half"])
    assert [summary(each) for each in graded] == [(1.0, None, False), (0.5, None, False)]
    assert took == 0.0


def test_what_the_model_caused_is_judged():
    crash = verdict(0.0, error_type=ErrorType.SOLUTION_ERROR)
    (graded,), _ = grade(FakeGym({"crash": [Run(crash)]}), ["crash"])
    assert summary(graded) == (0.0, "solution_error", False)


def test_a_long_response_is_read_off_the_event_loop(monkeypatch):
    """Reading one takes about a second per million characters, in which no other request would be answered."""
    threads = {}

    def extract(response):
        threads[response] = threading.current_thread() is threading.main_thread()
        return response

    monkeypatch.setattr(grader, "extract_code", extract)
    long = "x" * (grader.LONG_RESPONSE + 1)
    gym = FakeGym({"short": [Run(verdict(1.0))], long: [Run(verdict(1.0))]})

    async def main():
        return await Grader(environment(), gym, MASK, Slots(2)).grade(
            ["short", long], asyncio.get_running_loop().time() + 60
        )

    assert [summary(each) for each in asyncio.run(main())] == [(1.0, None, False)] * 2
    assert threads == {"short": True, long: False}


def test_no_samples():
    assert grade(FakeGym(), []) == ([], 0.0)


def test_an_infrastructure_failure_is_graded_once_more_after_a_pause():
    gym = FakeGym({"a": [Run(BROKEN, seconds=2.0), Run(verdict(0.5), seconds=3.0)]})
    (graded,), took = grade(gym, ["a"])
    assert summary(graded) == (0.5, None, False)
    assert [time for _, time in gym.calls] == [0.0, 2.0 + REGRADE_PAUSE_S]
    assert took == 2.0 + REGRADE_PAUSE_S + 3.0


def test_each_sample_pauses_by_itself():
    """A slow sibling does not hold up a second grading."""
    gym = FakeGym({"a": [Run(BROKEN), Run(verdict(1.0))], "slow": [Run(verdict(1.0), seconds=100.0)]})
    grade(gym, ["slow", "a"])
    assert [time for answer, time in gym.calls if answer == "a"] == [0.0, 1.0]


def test_a_second_failure_is_masked_with_the_first_error_type():
    gym = FakeGym({"a": [Run(SLOW_HOST), Run(BROKEN), Run(verdict(1.0))]})
    (graded,), _ = grade(gym, ["a"])
    assert summary(graded) == (MASK, "timeout", True)
    assert len(gym.calls) == 2


@pytest.mark.parametrize(
    ("end", "error_type"),
    [
        (VerifierError("bad cases"), "verifier_error"),
        (ZeroDivisionError("ours"), "unknown_error"),
        (no_verdict(ErrorType.INVALID_SCORE), "invalid_score"),
        (no_verdict(ErrorType.SANDBOX_ERROR), "sandbox_error"),
    ],
)
def test_any_other_run_without_a_verdict_is_never_run_again(end, error_type):
    gym = FakeGym({"a": [Run(end), Run(verdict(1.0))]})
    (graded,), _ = grade(gym, ["a"])
    assert summary(graded) == (MASK, error_type, True)
    assert len(gym.calls) == 1


@pytest.mark.parametrize("end", [ConnectionResetError("gone"), asyncio.CancelledError("leaked by a provider")])
def test_the_network_and_leaked_cancellations_count_as_infrastructure(end):
    gym = FakeGym({"a": [Run(end), Run(verdict(1.0))]})
    (graded,), _ = grade(gym, ["a"])
    assert summary(graded) == (1.0, None, False)
    assert len(gym.calls) == 2


class Panic(BaseException):
    """No Exception, as extension modules raise it."""


@pytest.mark.parametrize("end", [Panic("p"), GeneratorExit()])
def test_a_run_that_ends_with_no_exception_is_masked_and_not_late(end):
    """It ended after 2 s: the deadline's 0 is for runs that go on at 150 s."""
    gym = FakeGym({"a": [Run(end, seconds=2.0)]})
    graded, took = grade(gym, ["a", "right"])
    assert [summary(each) for each in graded] == [(MASK, "unknown_error", True), (1.0, None, False)]
    assert took == 2.0
    assert len(gym.calls) == 2


def test_a_first_run_still_going_at_the_deadline_scores_zero_and_is_killed():
    gym = FakeGym({"slow": [Run(verdict(1.0), seconds=1000.0)], "quick": [Run(verdict(1.0), seconds=149.0)]})
    graded, took = grade(gym, ["slow", "quick"], linger=1.0)
    assert [summary(each) for each in graded] == [(0.0, "deadline_exceeded", False), (1.0, None, False)]
    assert took == DEADLINE
    assert gym.killed == ["slow"]


def test_nobody_waits_for_a_killed_run_but_its_slot_does():
    gym = FakeGym({"slow": [Run(verdict(1.0), seconds=1000.0, dying=20.0)]})
    (graded,), took = grade(gym, ["slow"], linger=20.5)
    assert summary(graded) == (0.0, "deadline_exceeded", False)
    assert took == DEADLINE


def test_who_got_no_slot_in_time_is_masked():
    gym = FakeGym({"slow": [Run(verdict(1.0), seconds=1000.0)]})
    graded, took = grade(gym, ["slow", "late"], places=1, linger=1.0)
    assert [summary(each) for each in graded] == [(0.0, "deadline_exceeded", False), (MASK, "deadline_exceeded", True)]
    assert took == DEADLINE
    assert [answer for answer, _ in gym.calls] == ["slow"]  # the late one never starts, not even after the deadline


@pytest.mark.parametrize(
    ("starts_at", "seconds", "expected"),
    [
        (149.5, 0.6, (MASK, "deadline_exceeded", True)),  # got 0.5 s of the 0.6 s it needs
        (149.5, 0.4, (1.0, None, False)),  # its verdict came at 149.9 s
        (149.0, 1.1, (0.0, "deadline_exceeded", False)),  # got its whole second
    ],
)
@pytest.mark.parametrize("queue", ["the router's", "the gym's"])
def test_a_run_that_starts_just_before_the_deadline_is_not_blamed_for_it(starts_at, seconds, expected, queue):
    if queue == "the gym's":
        graded, _ = grade(FakeGym({"a": [Run(verdict(1.0), queued=starts_at, seconds=seconds)]}), ["a"], linger=1.0)
    else:
        first = Run(verdict(1.0), seconds=starts_at)
        gym = FakeGym({"first": [first], "a": [Run(verdict(1.0), seconds=seconds)]})
        graded, _ = grade(gym, ["first", "a"], places=1, linger=1.0)
    assert summary(graded[-1]) == expected


def test_waiting_inside_the_gym_is_no_run():
    """A slot of the router, but no place in the sandbox: the answer has not run, so it cannot be why it is late."""
    gym = FakeGym({"a": [Run(verdict(1.0), queued=1000.0)]})
    (graded,), _ = grade(gym, ["a"], linger=1.0)
    assert summary(graded) == (MASK, "deadline_exceeded", True)


def test_a_second_run_still_going_at_the_deadline_is_masked_with_the_first_error_type():
    gym = FakeGym({"a": [Run(BROKEN), Run(verdict(1.0), seconds=1000.0)]})
    (graded,), took = grade(gym, ["a"], linger=1.0)
    assert summary(graded) == (MASK, "sandbox_error", True)
    assert took == DEADLINE
    assert gym.killed == ["a"]


def test_a_second_grading_takes_a_slot_like_any_other():
    """`a` fails at 0 and pauses; `slow` holds the only slot until after the deadline."""
    gym = FakeGym({"a": [Run(BROKEN), Run(verdict(1.0))], "slow": [Run(verdict(1.0), seconds=1000.0)]})
    graded, _ = grade(gym, ["a", "slow"], places=1, linger=1.0)
    assert [summary(each) for each in graded] == [(MASK, "sandbox_error", True), (0.0, "deadline_exceeded", False)]
    assert gym.most_at_once == 1


@pytest.mark.parametrize(("fails_at", "calls"), [(148.9, 2), (149.0, 1)])
def test_no_second_grading_where_the_pause_would_pass_the_deadline(fails_at, calls):
    gym = FakeGym({"a": [Run(BROKEN, seconds=fails_at), Run(verdict(1.0))]})
    (graded,), took = grade(gym, ["a"])
    assert len(gym.calls) == calls
    assert summary(graded) == ((1.0, None, False) if calls == 2 else (MASK, "sandbox_error", True))
    assert took < DEADLINE


def test_a_run_that_ends_after_the_deadline_was_still_going_then():
    """The loop was busy elsewhere until 151 s; the verdict came meanwhile, and the loop sees it first."""

    class LateGym:
        async def arun(self, env, answer, *, on_start=lambda: None):
            on_start()
            return await late

    async def main():
        nonlocal late
        loop = asyncio.get_running_loop()
        late = loop.create_future()
        grading = asyncio.create_task(Grader(environment(), LateGym(), MASK, Slots(1)).grade(["a"], DEADLINE))
        await asyncio.sleep(149.0)
        loop._jumping.now = 151.0
        late.set_result(verdict(1.0))
        return await grading

    late: asyncio.Future | None = None
    (graded,) = run_virtual(main())
    assert summary(graded) == (0.0, "deadline_exceeded", False)


def test_slots_are_never_exceeded():
    gym = FakeGym(default=lambda answer: Run(verdict(1.0), seconds=1.0))
    _, took = grade(gym, [f"answer {n}" for n in range(20)], places=8)
    assert gym.most_at_once == 8
    assert took == 3.0  # 20 runs of a second on 8 places


def test_a_missing_prompt_is_never_run():
    gym = FakeGym()
    (graded,), _ = grade(gym, [None])
    assert summary(graded) == (MASK, "prompt_mismatch", True)
    assert gym.calls == []


def test_cancelling_kills_the_runs():
    gym = FakeGym({"a": [Run(verdict(1.0), seconds=1000.0)]})

    async def main():
        grading = asyncio.create_task(Grader(environment(), gym, MASK, Slots(1)).grade(["a"], DEADLINE))
        await asyncio.sleep(5.0)
        grading.cancel()
        await asyncio.sleep(1.0)

    run_virtual(main())
    assert gym.killed == ["a"]


def test_every_sample_without_a_verdict_is_a_warning_with_its_type_and_reward(caplog):
    gym = FakeGym({"broken": [Run(BROKEN)], "slow": [Run(verdict(1.0), seconds=1000.0)]})
    grade(gym, [None, "broken", "slow", "right"])
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "add: a sample has no verdict (prompt_mismatch) and gets -1.0" in warnings
    assert "add: a sample has no verdict (sandbox_error) and gets -1.0" in warnings
    assert "add: a sample has no verdict (deadline_exceeded) and gets 0.0" in warnings
    assert warnings.count("add: a run failed: SandboxError: the engine is gone") == 2
    assert len(warnings) == 5


def test_only_what_nobody_foresaw_is_logged_with_its_traceback(caplog):
    grade(FakeGym({"bug": [Run(ZeroDivisionError("ours"))], "broken": [Run(BROKEN)]}), ["bug", "broken"])
    traced = [record.getMessage() for record in caplog.records if record.exc_info]
    assert traced == ["add: a run failed: ZeroDivisionError: ours"]


@pytest.mark.parametrize(("masked", "warned"), [(5, False), (6, True)])
def test_the_deadlines_zeros_do_not_count_as_masked(caplog, masked, warned):
    gym = FakeGym({"slow": [Run(verdict(1.0), seconds=1000.0)]})
    grade(gym, [*[None] * masked, *["slow"] * 20, *["right"] * (80 - masked)])
    assert (f"{masked} of the last 100 samples" in caplog.text) is warned


def test_observers_see_every_sample():
    seen = []

    async def main():
        grader = Grader(environment(), FakeGym(), math.nan, Slots(1), seen.append)
        return await grader.grade(["a", None], DEADLINE)

    assert run_virtual(main()) == seen
    assert len(seen) == 2


def test_an_observer_that_raises_costs_no_reward(caplog):
    def observe(graded):
        raise RuntimeError("statsd is down")

    async def main():
        return await Grader(environment(), FakeGym(), math.nan, Slots(1), observe).grade(["a", "b"], DEADLINE)

    assert [graded.reward for graded in run_virtual(main())] == [1.0, 1.0]
    assert caplog.text.count("RuntimeError: statsd is down") == 2
    assert "add: observe failed on a sample" in caplog.text


def test_the_last_fenced_block_is_run():
    gym = FakeGym()
    grade(gym, ["First:\n```python\nno\n```\nBetter:\n```python\nyes\n```<|im_end|>", "no fence"])
    assert [answer for answer, _ in gym.calls] == ["yes\n", "no fence"]
