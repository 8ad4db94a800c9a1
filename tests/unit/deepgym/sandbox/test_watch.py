"""A made-up /proc: each test writes the files that the kernel would show."""

import os

import pytest

from deepgym.sandbox.runner import watch as module
from deepgym.sandbox.runner.setup import JailLimits
from deepgym.sandbox.runner.watch import Watch

MIB = 1 << 20
LIMITS = JailLimits(2.0, 10.0, 100 * MIB, 4, 64, MIB, MIB)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0
        self.cpu: dict[int, float] = {}

    def monotonic(self) -> float:
        return self.now

    def clock_gettime(self, clock: int) -> float:
        return self.cpu[~(clock >> 3)]


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module.time, "monotonic", clock.monotonic)
    monkeypatch.setattr(module.time, "clock_gettime", clock.clock_gettime)
    return clock


@pytest.fixture
def proc(tmp_path, clock):
    class Proc:
        fd = os.open(tmp_path, os.O_RDONLY)

        def put(self, pid, cpu=0.0, mib=1, threads=1, children_cpu=0.0, waited=0.0, pss_mib=None, state="S"):
            folder = tmp_path / str(pid)
            (folder / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
            ticks = int(children_cpu * os.sysconf("SC_CLK_TCK"))
            pages = mib * MIB // os.sysconf("SC_PAGE_SIZE")
            # man 5 proc: 3 state ... 16 cutime, 17 cstime ... 20 num_threads ... 24 rss
            fields = [state, *["0"] * 12, str(ticks), "0", "0", "0", str(threads), "0", "0", "0", str(pages)]
            (folder / "stat").write_text(f"{pid} (a) b) {' '.join(fields)}\n")
            (folder / "task" / str(pid) / "schedstat").write_text(f"0 {int(waited * 1e9)} 1\n")
            (folder / "smaps_rollup").write_text(f"x\nPss:    {(mib if pss_mib is None else pss_mib) * 1024} kB\n")
            clock.cpu[pid] = cpu

        def put_sockets(self, *types):
            """As unix(5) of the kernel's /proc/net has them: a heading, then one line each, the type in column 5."""
            lines = [f"0: 00000002 00000000 00000000 {kind} 01 7 @a\n" for kind in types]
            (tmp_path / "net").mkdir(exist_ok=True)
            (tmp_path / "net" / "unix").write_text("Num RefCount Protocol Flags Type St Inode Path\n" + "".join(lines))

        def remove(self, pid):
            for path in (f"{pid}/stat", f"{pid}/task/{pid}/schedstat", f"{pid}/smaps_rollup"):
                (tmp_path / path).unlink()
            for path in (f"{pid}/task/{pid}", f"{pid}/task", str(pid)):
                (tmp_path / path).rmdir()

    proc = Proc()
    (tmp_path / "meminfo").touch()
    yield proc
    os.close(proc.fd)


def make(proc) -> Watch:
    return Watch(LIMITS, proc.fd, whole_namespace=True)


def look(watch: Watch, clock: Clock, seconds: float = 0.3) -> str | None:
    clock.now += seconds
    return watch.look()


def test_nothing_is_sampled_before_it_is_due(proc, clock):
    watch = make(proc)
    proc.put(2, mib=500)
    assert look(watch, clock, 0.001) is None
    assert look(watch, clock) == "memory"


def test_memory_is_summed_over_the_tree_and_shared_pages_count_once(proc, clock):
    watch = make(proc)
    for pid in (2, 3, 4):
        proc.put(pid, mib=40, pss_mib=20)  # 120 MiB resident, 60 of them real
    assert look(watch, clock) is None
    assert watch.peak_memory == 60 * MIB
    proc.put(5, mib=41)  # 101 MiB
    assert look(watch, clock) == "memory"


def test_what_sockets_may_hold_is_memory_and_those_from_before_are_not(proc, clock, monkeypatch):
    monkeypatch.setattr(module, "_send_buffer", lambda: 2 * MIB)
    proc.put_sockets("0001", "0002")
    watch = make(proc)
    proc.put(2, mib=10)
    proc.put_sockets("0001", "0002", *["0001"] * 8, *["0005"] * 2, "0002")
    assert look(watch, clock) is None
    assert watch.peak_memory == 68 * MIB  # 10 + 2 x (8 streams x 1.25 + 2 of packets x 2 + 15 for the datagrams)
    proc.put_sockets("0001", "0002", *["0001"] * 37)  # 10 + 2 x 37 x 1.25 = 102.5 MiB
    assert look(watch, clock) == "memory"


def test_cpu_is_summed_over_live_processes_and_their_waited_children(proc, clock):
    watch = make(proc)
    proc.put(2, cpu=0.9, children_cpu=0.5)
    proc.put(3, cpu=0.5)
    assert look(watch, clock) is None
    assert watch.cpu() == pytest.approx(1.9)
    proc.put(3, cpu=0.61)
    assert look(watch, clock) == "timeout"


def test_processes_that_nobody_waits_for_still_count(proc, clock):
    """Each burns 0.7 s and vanishes without leaving its time to a parent."""
    watch = make(proc)
    said = []
    for pid in (2, 3, 4):
        proc.put(pid, cpu=0.7)
        said.append(look(watch, clock))
        proc.remove(pid)
    assert said == [None, None, "timeout"]  # 0.7, 1.4, 2.1 of 2.0 s


def test_idling_uses_up_the_wall_limit(proc, clock):
    watch = make(proc)
    proc.put(2)
    assert look(watch, clock, 9.9) is None
    assert look(watch, clock, 0.2) == "timeout"


def test_waiting_for_a_core_does_not(proc, clock):
    watch = make(proc)
    for second in range(1, 16):
        proc.put(2, waited=0.5 * second)  # half of each second in the run queue
        assert look(watch, clock, 1.0) is None
    for second in range(16, 20):
        proc.put(2, waited=0.5 * second)
        assert look(watch, clock, 1.0) is None
    proc.put(2, waited=10.0)
    assert look(watch, clock, 1.0) == "timeout"  # 20 s, 10 of them its own


def test_without_a_core_for_twice_the_wall_limit_there_is_no_verdict(proc, clock):
    watch = make(proc)
    said = []
    for second in range(1, 22):
        proc.put(2, waited=float(second))
        said.append(look(watch, clock, 1.0))
    assert said[18] is None
    assert said[20] == "starved"


def test_no_more_is_forgiven_than_time_has_passed(proc, clock):
    """Many waiting processes, or one that reports nonsense, do not stretch the clock."""
    watch = make(proc)
    for pid in range(2, 6):
        proc.put(pid, waited=100.0)
    look(watch, clock, 1.0)
    assert watch.starved == pytest.approx(1.0)


def test_waiting_of_processes_that_came_and_went_is_forgiven(proc, clock):
    """A shell script on a busy host: the shell sleeps for a child, which wants a core and soon makes way for the next.

    Of each second a twentieth is spent computing and the rest in the run queue, which no child lives to show.
    """
    watch, said = make(proc), []
    for second in range(1, 21):
        proc.put(2, children_cpu=0.05 * second)
        proc.put(100 + second, state="R")
        said.append(look(watch, clock, 1.0))
        proc.remove(100 + second)
    assert watch.starved == pytest.approx(19.0)  # 20 x (1 - 0.05)
    assert said[:19] == [None] * 19
    assert said[19] == "starved"  # twice the limit of 10 s has gone: no verdict, instead of a 0


def test_a_loop_of_short_sleeps_is_idling(proc, clock):
    """One sample of ten meets a process that wants a core; what it computes is next to nothing."""
    watch, said = make(proc), []
    for tenth in range(1, 121):
        proc.put(100 + tenth, state="R" if tenth % 10 == 0 else "S")
        said.append(look(watch, clock, 0.1))
        proc.remove(100 + tenth)
    assert watch.starved == pytest.approx(1.2)  # of 12 s
    assert said[:105] == [None] * 105  # 10.5 s, of which 1.0 s waiting
    assert said[-1] == "timeout"


def test_computing_is_not_waiting(proc, clock):
    watch = make(proc)
    proc.put(2, cpu=1.0, state="R")
    look(watch, clock, 1.0)
    assert watch.starved == pytest.approx(0.0)


def test_more_tasks_than_the_kernel_should_have_let_be(proc, clock):
    watch = make(proc)
    proc.put(2, threads=17)  # 2 x 4 + 8 are tolerated
    assert look(watch, clock) == "process_limit"
