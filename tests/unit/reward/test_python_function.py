"""Reward functions in a user's file: loading, calling off the event loop, failing, hanging."""

import asyncio
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from openrlhf.interfaces import RewardSource
from openrlhf.reward import python_function
from openrlhf.reward.errors import RewardError
from openrlhf.reward.python_function import PythonReward
from openrlhf.types import Prompt, Status

PROMPT = Prompt(prompt_id=0, text="2+2=", label="4")


@pytest.fixture
def write(tmp_path):
    def _write(code: str, name: str = "my_rewards.py") -> Path:
        path = tmp_path / name
        path.write_text(textwrap.dedent(code))
        return path

    return _write


async def score(source: RewardSource, response: str = "4"):
    return await source.score(PROMPT.text + response, PROMPT, response)


async def test_the_function_of_the_documents(write):
    path = write("""
        import torch

        def reward_func(queries, prompts, labels):
            batch_size = len(queries)
            reward = torch.zeros(batch_size)
            for i, (q, p, label) in enumerate(zip(queries, prompts, labels)):
                assert type(label) is str and q.startswith(p)
                reward[i] = 1.0 if q[len(p):] == label else 0.0
            return {"rewards": reward, "scores": reward, "extra_logs": {"accuracy": reward.mean().item()}}
    """)
    source = PythonReward(path)
    right, wrong = await score(source, "4"), await score(source, "5")
    assert (right.reward, right.score, right.extra_logs) == (1.0, 1.0, {"accuracy": 1.0})
    assert (wrong.reward, wrong.status) == (0.0, Status.GRADED)
    assert source.stats() == {}
    await source.close()


async def test_loaded_once_beside_another_file_of_the_same_name(write, tmp_path):
    (tmp_path / "helper_of_rewards.py").write_text("BONUS = 0.25\n")
    (tmp_path / "other").mkdir()
    one = PythonReward(
        write("""
        from dataclasses import dataclass
        from helper_of_rewards import BONUS

        @dataclass
        class Count:
            calls: int = 0

        count = Count()

        def reward_func(queries, prompts, labels):
            import helper_of_rewards  # also later, inside the function
            count.calls += 1
            return count.calls + BONUS
    """)
    )
    two = PythonReward(write("def reward_func(queries, prompts, labels): return -1\n", "other/my_rewards.py"))
    assert [(await score(source)).reward for source in (one, two, one, two)] == [1.25, -1.0, 2.25, -1.0]


async def test_async_functions_share_one_loop(write):
    source = PythonReward(
        write("""
        import asyncio
        import threading

        seen = set()

        async def reward_func(queries, prompts, labels):
            await asyncio.sleep(0.05)
            seen.add((id(asyncio.get_running_loop()), threading.get_ident()))
            return {"rewards": [len(seen)]}
    """)
    )
    outcomes = await asyncio.gather(*(score(source) for _ in range(8)))
    assert {outcome.reward for outcome in outcomes} == {1.0}
    await source.close()


async def test_calls_run_beside_each_other_and_off_the_event_loop(write, tmp_path):
    source = PythonReward(
        write("""
        import pathlib
        import threading
        import time

        all_eight = threading.Barrier(8)

        def reward_func(queries, prompts, labels):
            all_eight.wait(60)
            pathlib.Path(labels[0], "begun").touch()
            deadline = time.monotonic() + 60
            while not pathlib.Path(labels[0], "end").exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            return threading.get_ident() != threading.main_thread().ident
    """)
    )
    prompt = Prompt(0, "", label=str(tmp_path))
    calls = asyncio.gather(*(source.score("x", prompt, "x") for _ in range(8)))
    while not (tmp_path / "begun").exists() and not calls.done():  # noqa: ASYNC110  (a file has no event)
        await asyncio.sleep(0.01)
    (tmp_path / "end").touch()  # the loop was free meanwhile: no call ends before this
    assert [outcome.reward for outcome in await calls] == [1.0] * 8


async def test_at_most_so_many_calls_at_once(write):
    source = PythonReward(
        write("""
        import threading
        import time

        now, peak, lock = 0, 0, threading.Lock()

        def reward_func(queries, prompts, labels):
            global now, peak
            with lock:
                now += 1
                peak = max(peak, now)
            time.sleep(0.2)
            with lock:
                now -= 1
            return peak
    """),
        concurrency=3,
    )
    outcomes = await asyncio.gather(*(score(source) for _ in range(12)))
    assert max(outcome.reward for outcome in outcomes) == 3.0


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import no_such_module_x\n", r"import failed: ModuleNotFoundError: .*no_such_module_x.* at .*rewards\.py:1$"),
        ("x = 1\ndef f(:\n", r"import failed: SyntaxError: .* at .*rewards\.py:2$"),
        ("import sys\n\nsys.exit('bye')\n", r"import failed: SystemExit: bye at .*rewards\.py:3$"),
        ("class E(BaseException): ...\n\nraise E('own')\n", r"import failed: E: own at .*rewards\.py:3$"),
        ("def reward_fn(q, p, l): ...\n", r"defines no reward_func; its functions are \['reward_fn'\]"),
        ("reward_func = 3\n", "reward_func is a int, not a function"),
        ("def reward_func(queries, prompts): ...\n", r"must take \(queries, prompts, labels\)"),
    ],
)
def test_a_faulty_file_is_refused_at_once(write, code, message):
    path = write(code)
    with pytest.raises(RewardError, match=message) as caught:
        PythonReward(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(RewardError, match=r"nowhere\.py: does not exist"):
        PythonReward(tmp_path / "nowhere.py")
    with pytest.raises(RewardError, match="is a folder"):
        PythonReward(tmp_path)


@pytest.mark.parametrize(
    ("prefix", "exception"),
    [
        ("", "KeyError('x')"),
        ("", "TimeoutError('slow\\nserver')"),
        ("", "StopIteration()"),  # no future can hold it
        ("async ", "KeyError('x')"),
        ("async ", "TimeoutError('slow\\nserver')"),  # not to be taken for our own time limit
    ],
)
async def test_a_function_that_raises_ends_the_run_with_one_line(write, exception, prefix):
    path = write(f"{prefix}def reward_func(queries, prompts, labels):\n    raise {exception}\n")
    with pytest.raises(RewardError) as caught:
        await score(PythonReward(path))
    message = str(caught.value)
    assert message.startswith(f"reward_func in {path} raised {exception.partition('(')[0]}")
    assert message.endswith(f" at {path}:2")
    assert "\n" not in message


async def test_a_failure_inside_a_library_names_both_lines(write):
    path = write("import json\n\ndef reward_func(queries, prompts, labels):\n    return json.loads('{')\n")
    with pytest.raises(RewardError, match=rf"JSONDecodeError: .* at \S*decoder\.py:\d+ <- {path}:4$"):
        await score(PythonReward(path))


EXOTIC = """
import asyncio
import threading

class Mute(Exception):
    def __str__(self):
        raise ValueError("no words")
    __repr__ = __str__

class Locked(Exception):  # cannot be pickled
    def __init__(self):
        super().__init__(threading.Lock())

class Own(BaseException):
    pass

class Number(float):
    def __float__(self):
        raise SystemExit("no number")

class Logs(dict):
    def items(self):
        raise Own("no logs")

{prefix}def reward_func(queries, prompts, labels):
    {statement}
"""


@pytest.mark.parametrize("prefix", ["", "async "])
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("raise SystemExit(0)", "raised SystemExit: 0 at "),
        ("raise KeyboardInterrupt", "raised KeyboardInterrupt at "),
        ("raise asyncio.CancelledError", "raised CancelledError"),
        ("raise GeneratorExit", "raised GeneratorExit at "),
        ("raise Own('mine')", "raised Own: mine at "),
        ("raise Mute", r"raised Mute: \(its message cannot be shown: str\(\) raised ValueError\) at "),
        ("raise Locked", "raised Locked: <unlocked _thread.lock object at "),
        ("raise ExceptionGroup('two', [Mute(), Own and ValueError('b')])", "raised ExceptionGroup: two"),
        ("return Number(1)", "its return value cannot be read: SystemExit: no number"),
        ("return {'rewards': [1], 'extra_logs': Logs()}", "its return value cannot be read: Own: no logs"),
    ],
)
async def test_whatever_the_function_does_is_one_line(write, prefix, statement, said):
    path = write(EXOTIC.format(prefix=prefix, statement=statement))
    source = PythonReward(path)
    with pytest.raises(RewardError, match=said) as caught:
        await asyncio.wait_for(score(source), 30)
    message = str(caught.value)
    assert message.startswith(f"reward_func in {path}")
    assert "\n" not in message
    assert str(pickle.loads(pickle.dumps(caught.value))) == message  # it crosses to the process that runs the training
    await source.close()


async def test_a_wrong_return_value_names_function_and_file(write):
    path = write("def reward_func(queries, prompts, labels):\n    return {'rewards': [1, 2, 3]}\n")
    with pytest.raises(RewardError, match=rf"reward_func in {path}: rewards: expected 1, got 3"):
        await score(PythonReward(path))


HANGS_ON_THE_LABEL = """
    import asyncio
    import time

    {prefix}def reward_func(queries, prompts, labels):
        if queries[0].endswith("hang"):
            {sleep}(60)
        return 1.0
"""


@pytest.mark.parametrize(("prefix", "sleep"), [("", "time.sleep"), ("async ", "await asyncio.sleep")])
async def test_a_hanging_call_is_ungraded_and_blocks_no_other(write, prefix, sleep):
    source = PythonReward(write(HANGS_ON_THE_LABEL.format(prefix=prefix, sleep=sleep)), timeout_s=2, concurrency=2)
    started = time.monotonic()
    hung, *others = await asyncio.gather(score(source, "hang"), *(score(source) for _ in range(6)))
    assert hung.status is Status.UNGRADED
    assert "took longer than 2 s" in hung.reason
    assert [outcome.reward for outcome in others] == [1.0] * 6
    assert source.stats() == {"timeout": 1}
    assert time.monotonic() - started < 30  # the call would take 60
    await source.close()


@pytest.mark.parametrize(("prefix", "sleep"), [("", "time.sleep"), ("async ", "time.sleep")])
async def test_a_function_that_hangs_in_every_thread_ends_the_run(write, monkeypatch, prefix, sleep):
    monkeypatch.setattr(python_function, "GRACE_S", 0.1)
    # The second is an async function that blocks its loop: it cannot be cancelled, so it must not hide.
    source = PythonReward(write(HANGS_ON_THE_LABEL.format(prefix=prefix, sleep=sleep)), timeout_s=0.1, concurrency=2)
    results = await asyncio.gather(*(score(source, "hang") for _ in range(2)), return_exceptions=True)
    assert any(isinstance(result, RewardError) and "still runs" in str(result) for result in results)


async def test_many_cancelled_coroutines_are_no_hanging_threads(write, monkeypatch):
    monkeypatch.setattr(python_function, "GRACE_S", 30.0)  # waited out only if the machine stands still
    source = PythonReward(
        write(HANGS_ON_THE_LABEL.format(prefix="async ", sleep="await asyncio.sleep")), timeout_s=0.1, concurrency=2
    )
    outcomes = await asyncio.gather(*(score(source, "hang") for _ in range(6)))
    assert source.stats() == {"timeout": 6}
    assert {outcome.status for outcome in outcomes} == {Status.UNGRADED}


async def test_a_late_thread_comes_back_into_use(write, tmp_path):
    source = PythonReward(
        write("""
        import pathlib
        import time

        def reward_func(queries, prompts, labels):
            while queries[0].endswith("late") and not pathlib.Path(labels[0]).exists():
                time.sleep(0.01)
            return 1.0
    """),
        concurrency=2,
    )
    before = threading.active_count()
    for number in range(3):
        end = tmp_path / f"end{number}"
        source._timeout_s = 0.1
        outcome = await source.score("late", Prompt(0, "", label=str(end)), "late")
        assert outcome.status is Status.UNGRADED
        end.touch()
        async with asyncio.timeout(30):
            while source._threads.hung:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        source._timeout_s = 60.0  # the next call is not late, however busy the machine
        assert (await score(source)).reward == 1.0
    assert threading.active_count() <= before + 2
    await source.close()


def test_a_hanging_call_does_not_keep_the_process_alive(write):
    path = write(HANGS_ON_THE_LABEL.format(prefix="", sleep="time.sleep"))
    program = f"""
import asyncio
from openrlhf.reward.python_function import PythonReward
from openrlhf.types import Prompt

async def main():
    source = PythonReward({str(path)!r}, timeout_s=0.2)
    outcome = await source.score("hang", Prompt(0, ""), "hang")
    await source.close()
    print(outcome.status)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "ungraded", done.stderr
