"""Worker processes that hang or die cost one fresh try, and never a wait without end. The judge here is a stub."""

import os
import signal

import pytest

from openrlhf.env import workers
from openrlhf.env.workers import WorkerGone, WorkerPool

JUDGE = """
def warm_up():
    pass


def judge(request):
    return str(len(request["answer"]))
"""
LONG = "x" * 2_000_000  # more than a socket holds


@pytest.fixture
def pool(tmp_path):
    (tmp_path / "judge.py").write_text(JUDGE)
    made = WorkerPool(tmp_path / "judge.py", "counting", size=1)
    yield made
    made.close()


def test_a_worker_that_hangs_while_it_is_asked_is_replaced(pool, monkeypatch):
    monkeypatch.setattr(workers, "STUCK_S", 0.2)
    pool.start()
    monkeypatch.setattr(workers, "STUCK_S", 30.0)  # its successor may be slow on a busy machine
    (hung,) = pool.pids()
    os.kill(hung, signal.SIGSTOP)
    assert pool.ask({"answer": LONG}) == "2000000"
    assert hung not in pool.pids()


def test_two_in_a_row_are_said(pool, monkeypatch):
    started = []

    def start_stopped(pool=pool, start=pool._start):
        process = start()
        os.kill(process.pid, signal.SIGSTOP)
        started.append(process.pid)
        return process

    monkeypatch.setattr(workers, "STUCK_S", 0.2)
    monkeypatch.setattr(pool, "_start", start_stopped)
    with pytest.raises(WorkerGone, match="counting: worker"):
        pool.ask({"answer": LONG})
    assert len(started) == 2
    assert pool.pids() == []
