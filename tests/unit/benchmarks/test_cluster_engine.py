"""An engine of the cluster model; all times are worked out by hand."""

import pytest
import simpy

from benchmarks.support.cluster.engine import Engine, Speed

# 1.5 s per token for one request, 2 s each for two of them.
SPEED = Speed(base=1.0, per_request=0.5)


class Bench:
    """An engine, and when its requests ended and with which weights they began."""

    def __init__(self, speed: Speed = SPEED) -> None:
        self.environment = simpy.Environment()
        self.engine = Engine(self.environment, speed)
        self.ended: dict[str, float] = {}
        self.version: dict[str, int] = {}

    def ask(self, name: str, tokens: float, at: float = 0.0) -> None:
        def begin(_):
            self.engine.generate(tokens, lambda version: self.version.update({name: version}), end)

        def end():
            self.ended[name] = self.environment.now

        self.environment.timeout(at).callbacks.append(begin)

    def update(self, at: float, seconds: float, keep: bool) -> None:
        def begin(_):
            self.environment.process(self.engine.update(1, seconds, keep))

        self.environment.timeout(at).callbacks.append(begin)

    def run(self) -> dict[str, float]:
        self.environment.run()
        return self.ended


def test_requests_slow_each_other_down_while_they_are_together():
    bench = Bench()
    bench.ask("a", 10)
    bench.ask("b", 10, at=6)
    # a alone: 6 s at 1.5 s are 4 tokens. Together at 2 s: a's other 6 take 12 s, to 18; b has 6 tokens by then.
    # b alone: its last 4 at 1.5 s, to 24.
    assert bench.run() == pytest.approx({"a": 18, "b": 24})
    assert bench.engine.busy_seconds == pytest.approx(24)


def test_requests_beyond_the_slots_wait():
    bench = Bench(Speed(1.0, 0.5, slots=1))
    bench.ask("a", 10)
    bench.ask("b", 10)
    bench.ask("c", 2, at=1)
    assert bench.run() == pytest.approx({"a": 15, "b": 30, "c": 33})


def test_an_update_waits_for_what_runs_and_holds_back_what_comes():
    bench = Bench()
    bench.ask("before", 10)
    bench.update(at=3, seconds=5, keep=False)
    bench.ask("held", 2, at=4)
    # `before` ends at 15, the weights are there at 20, then `held` takes 3 s.
    assert bench.run() == pytest.approx({"before": 15, "held": 23})
    assert bench.version == {"before": 0, "held": 1}


def test_an_update_of_an_idle_engine_takes_its_own_time_only():
    bench = Bench()
    bench.update(at=3, seconds=5, keep=False)
    bench.ask("held", 2, at=4)
    assert bench.run() == pytest.approx({"held": 8 + 3})


def test_an_update_pauses_what_is_kept_in_flight():
    bench = Bench()
    bench.ask("before", 10)
    bench.update(at=3, seconds=5, keep=True)
    bench.ask("held", 2, at=4)
    # 2 tokens by 3, nothing until 8; both at 2 s per token until held ends at 12; before has 4 by then, 6 more alone.
    assert bench.run() == pytest.approx({"held": 12, "before": 12 + 9})
    assert bench.version == {"before": 0, "held": 1}
    assert bench.engine.busy_seconds == pytest.approx(21 - 5)
