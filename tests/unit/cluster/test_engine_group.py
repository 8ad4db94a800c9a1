"""What the engine group asks of its engines, over scripted actors."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from openrlhf.cluster import engines
from openrlhf.cluster.engines import EngineGroup
from openrlhf.cluster.specs import GroupRequest
from openrlhf.config.run import ClusterConfig
from openrlhf.types import Prompt, SamplingParams


class Answered:
    """A Flight whose calls are answered in the order in which they were made; the answer is the ref itself."""

    def __init__(self, work: str) -> None:
        self.refs: list[int] = []

    def add(self, ref: int, peer: str, seconds: float) -> None:
        self.refs.append(ref)

    def next(self, within: float | None = None) -> tuple[int, int]:
        ref = self.refs.pop(0)
        return ref, ref


@pytest.fixture
def calls(monkeypatch) -> list[tuple]:
    """Every remote call: (engine, method, arguments). A call's ref is its position in this list and its answer too."""
    made: list[tuple] = []

    def actor(index: int) -> SimpleNamespace:
        def method(name: str) -> SimpleNamespace:
            def remote(*arguments: object) -> int:
                made.append((index, name, *arguments))
                return len(made) - 1

            return SimpleNamespace(remote=remote)

        return SimpleNamespace(**{name: method(name) for name in ("run_group", "hold", "release", "busy_seconds")})

    class Actors:
        started = 0

        @classmethod
        def options(cls, **_: object) -> SimpleNamespace:
            return SimpleNamespace(remote=cls.start)

        @classmethod
        def start(cls) -> SimpleNamespace:
            cls.started += 1
            return actor(cls.started - 1)

    monkeypatch.setattr(engines, "EngineActor", Actors)
    monkeypatch.setattr(engines, "Flight", Answered)
    monkeypatch.setattr(engines, "gather", lambda refs, work, timeout: list(refs))
    return made


def group(count: int) -> EngineGroup:
    seat = SimpleNamespace(options={}, bundles=())
    return EngineGroup([seat] * count, SimpleNamespace(device="cpu"), ClusterConfig())  # type: ignore[arg-type]


def requests(sizes: Sequence[int]) -> list[GroupRequest]:
    return [GroupRequest(Prompt(i, str(i)), str(i), n, SamplingParams()) for i, n in enumerate(sizes)]


def test_prompts_go_to_the_least_loaded_engine_and_start_at_once(calls):
    results = list(group(2).generate(requests([4, 1, 1]), paused=False))
    assert [(engine, name, request.group_id) for engine, name, request in calls] == [
        (0, "run_group", "0"),
        (1, "run_group", "1"),
        (1, "run_group", "2"),
    ]
    assert results == [0, 1, 2]


def test_a_paused_batch_is_held_and_released_with_the_samples_of_each_engine(calls):
    results = list(group(3).generate(requests([4, 1, 1, 2]), paused=True))
    # Samples given: [4, 1, 1], then engine 1 has the fewest: 1 + 2 = 3.
    assert [call[:2] for call in calls[:3]] == [(0, "hold"), (1, "hold"), (2, "hold")]
    assert [call for call in calls if call[1] == "release"] == [(0, "release", 4), (1, "release", 3), (2, "release", 1)]
    # Only groups are results, not the answers to `release`.
    assert [calls[result][1] for result in results] == ["run_group"] * 4


def test_a_prompt_that_joins_goes_where_the_fewest_samples_are_in_flight(calls):
    engine_group = group(2)
    engine_group.submit(requests([4, 2]))
    assert engine_group.next_group() == 0  # the four of engine 0 are done
    engine_group.submit(requests([1]))
    assert calls[-1][:2] == (0, "run_group")
    assert engine_group.in_flight == 2
    assert [engine_group.next_group(), engine_group.next_group()] == [1, 2]
    assert engine_group.in_flight == 0


def test_scoring_seconds_are_those_since_the_last_lap_on_the_busiest_engine(calls, monkeypatch):
    busy = iter([[(9.0, 1.0), (9.0, 3.0)], [(9.0, 4.5), (9.0, 3.0)]])
    monkeypatch.setattr(engines, "gather", lambda refs, work, timeout: next(busy))
    engine_group = group(2)
    assert engine_group.lap() == {"timing/reward": 3.0}
    assert engine_group.lap() == {"timing/reward": 1.5}
