"""What the engine group asks of its engines, and what it does when one dies, over scripted actors."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from openrlhf.cluster import engine, engines
from openrlhf.cluster.engines import EngineGroup
from openrlhf.cluster.errors import EngineLost, PeerDied, PeerTimeout
from openrlhf.cluster.specs import GroupRequest
from openrlhf.config.rollout import VllmConfig
from openrlhf.config.run import ClusterConfig
from openrlhf.rollout.errors import EngineDead
from openrlhf.types import Prompt, RolloutGroup, SamplingParams


class Ray:
    """Every remote call, in order: `calls[ref]` is (engine, process of it, method, arguments).

    A call is answered as it is made, unless its process was killed or its method is in `silent`; of several answered
    ones the first that was made comes first.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.dead: set[tuple[int, int]] = set()  # processes
        self.broken: set[tuple[int, int]] = set()  # processes that answer, but whose engine core is dead
        self.silent: set[str] = set()
        self.started: dict[int, int] = {}
        self.killed: list[tuple[int, int]] = []

    def start(self, index: int) -> Any:
        process = (index, self.started.get(index, 0))
        self.started[index] = process[1] + 1
        names = [
            "start",
            "run_group",
            "hold",
            "release",
            "receive_weights",
            "sleep",
            "wake",
            "shutdown",
            "busy_seconds",
        ]

        def method(name: str) -> SimpleNamespace:
            def remote(*arguments: object) -> int:
                self.calls.append((*process, name, *arguments))
                return len(self.calls) - 1

            return SimpleNamespace(remote=remote)

        return SimpleNamespace(process=process, **{name: method(name) for name in names})

    def kill(self, actor: Any) -> None:
        self.killed.append(actor.process)
        self.dead.add(actor.process)

    def wait(self, refs: Sequence[int], num_returns: int, timeout: float) -> tuple[list[int], list[int]]:
        done = [ref for ref in refs if self.calls[ref][2] not in self.silent or self.calls[ref][:2] in self.dead][:1]
        return done, [ref for ref in refs if ref not in done]

    def fetch(self, ref: int, peer: str, work: str) -> Any:
        index, process, name, *arguments = self.calls[ref]
        if (index, process) in self.dead:
            raise PeerDied(peer, work, "the process ended")
        if (index, process) in self.broken:
            raise EngineDead(f"{peer} is dead: its core died")
        if name == "run_group":
            return SimpleNamespace(group=RolloutGroup(arguments[0].group_id, ()))
        return (9.0, 1.0 + ref) if name == "busy_seconds" else None

    def asked(self, name: str) -> list[tuple[int, int, str]]:
        """(engine, process, group) of each call of run_group, or (engine, process, argument) of another method."""
        return [
            (index, process, arguments[0].group_id if name == "run_group" else (arguments or [None])[0])
            for index, process, called, *arguments in self.calls
            if called == name
        ]


@pytest.fixture
def fake(monkeypatch) -> Ray:
    fake = Ray()
    made = iter(range(100))

    class Actors:
        @classmethod
        def options(cls, **_: object) -> SimpleNamespace:
            index = next(made)
            return SimpleNamespace(remote=lambda: fake.start(index))

    monkeypatch.setattr(engines, "EngineActor", Actors)
    monkeypatch.setattr(engine, "ray", fake)
    monkeypatch.setattr(engines, "ray", fake)
    monkeypatch.setattr("openrlhf.cluster.flight.ray", fake)
    monkeypatch.setattr("openrlhf.cluster.wait.ray", fake)
    monkeypatch.setattr("openrlhf.cluster.flight.fetch", fake.fetch)
    monkeypatch.setattr(engines, "fetch", fake.fetch)
    monkeypatch.setattr(engines.time, "sleep", lambda seconds: None)
    return fake


def group(count: int, max_restarts: int = 3) -> EngineGroup:
    seat = SimpleNamespace(options={}, bundles=())
    spec = SimpleNamespace(device="cpu", vllm=VllmConfig(max_restarts=max_restarts))
    return EngineGroup([seat] * count, spec, ClusterConfig())  # type: ignore[arg-type, list-item]


def requests(sizes: Sequence[int]) -> list[GroupRequest]:
    return [GroupRequest(Prompt(i, str(i)), str(i), n, SamplingParams()) for i, n in enumerate(sizes)]


def handed_out(engine_group: EngineGroup) -> list[str]:
    """The groups that come until none comes."""
    found: list[str] = []
    while (result := engine_group.next_group(within=0.0)) is not None:
        found.append(result.group.group_id)
    return found


def test_prompts_go_to_the_least_loaded_engine_and_start_at_once(fake):
    engine_group = group(2)
    engine_group.submit(requests([4, 1, 1]))
    assert fake.asked("run_group") == [(0, 0, "0"), (1, 0, "1"), (1, 0, "2")]
    assert handed_out(engine_group) == ["0", "1", "2"]
    assert engine_group.in_flight == 0


def test_a_paused_batch_is_held_and_released_with_the_samples_of_each_engine(fake):
    engine_group = group(3)
    engine_group.submit(requests([4, 1, 1, 2]), paused=True)
    assert [call[2] for call in fake.calls[:3]] == ["hold"] * 3
    # Samples given: [4, 1, 1], then engine 1 has the fewest: 1 + 2 = 3.
    assert sorted(fake.asked("release")) == [(0, 0, 4), (1, 0, 3), (2, 0, 1)]
    assert sorted(handed_out(engine_group)) == ["0", "1", "2", "3"]  # only groups, not the answers to `release`


def test_a_prompt_that_joins_goes_where_the_fewest_samples_are_in_flight(fake):
    engine_group = group(2)
    engine_group.submit(requests([4, 2]))
    assert engine_group.next_group().group.group_id == "0"  # the four of engine 0 are done
    engine_group.submit([GroupRequest(Prompt(9, "9"), "9", 1, SamplingParams())])
    assert fake.asked("run_group")[-1] == (0, 0, "9")
    assert engine_group.in_flight == 2
    assert handed_out(engine_group) == ["1", "9"]


def test_scoring_seconds_are_those_since_the_last_lap_on_the_busiest_engine(fake):
    engine_group = group(2)
    # The answers are 1 + the number of the call: 1 and 2, then 3 and 4.
    assert engine_group.lap() == {"timing/reward": 2.0}
    assert engine_group.lap() == {"timing/reward": 2.0}


def test_the_groups_of_a_dead_engine_are_asked_again_at_the_others(fake, caplog):
    engine_group = group(2)
    engine_group.submit(requests([1, 1, 1, 1]))  # 0 and 2 at engine 0, 1 and 3 at engine 1
    fake.dead.add((0, 0))
    assert sorted(handed_out(engine_group)) == ["0", "1", "2", "3"]
    assert fake.asked("run_group")[4:] == [(1, 0, "0"), (1, 0, "2")]
    assert fake.killed == [(0, 0)]
    assert (
        "vLLM engine 0 died during 'rollout': the process ended; restarting it (1 of 3), 2 groups are asked again"
        in (caplog.text)
    )
    # It is up again, and takes nothing before it has weights.
    assert engine_group.stale
    engine_group.submit(requests([1]))
    assert fake.asked("run_group")[-1] == (1, 0, "0")


def test_an_engine_whose_core_died_is_replaced_as_well(fake):
    engine_group = group(1)
    engine_group.submit(requests([1]))
    fake.broken.add((0, 0))
    assert handed_out(engine_group) == []
    assert fake.killed == [(0, 0)]
    assert fake.asked("start") == [(0, 1, engine_group._spec)]


def test_a_lone_engine_runs_what_is_left_once_it_has_weights(fake):
    engine_group = group(1)
    engine_group.submit(requests([1, 1]))
    assert engine_group.next_group().group.group_id == "0"
    fake.dead.add((0, 0))
    assert handed_out(engine_group) == []
    assert (engine_group.in_flight, engine_group.stale) == (1, True)
    engine_group.receive("weights", only_stale=True)
    assert not engine_group.stale
    assert handed_out(engine_group) == ["1"]
    assert fake.asked("run_group") == [(0, 0, "0"), (0, 0, "1"), (0, 1, "1")]


def test_weights_go_to_the_stale_alone_where_asked(fake):
    engine_group = group(2)
    engine_group.submit(requests([1]))
    fake.dead.add((0, 0))
    handed_out(engine_group)
    engine_group.receive("weights", only_stale=True)
    assert fake.asked("receive_weights") == [(0, 1, "weights")]
    engine_group.receive("weights")
    assert len(fake.asked("receive_weights")) == 3


def test_a_paused_batch_runs_whole_again_and_hands_out_only_what_is_missing(fake):
    """Beside other requests a sample could come out differently."""
    engine_group = group(1)
    engine_group.submit(requests([2, 1, 1]), paused=True)
    assert engine_group.next_group().group.group_id == "0"
    fake.dead.add((0, 0))
    assert handed_out(engine_group) == []
    engine_group.receive("weights", only_stale=True)
    assert [call for call in fake.asked("run_group") if call[1] == 1] == [(0, 1, "0"), (0, 1, "1"), (0, 1, "2")]
    assert fake.asked("release")[-1] == (0, 1, 4)
    assert fake.calls[-5][2] == "hold"
    assert handed_out(engine_group) == ["1", "2"]


def test_a_paused_batch_waits_for_an_engine_that_is_not_up(fake):
    engine_group = group(2)
    engine_group.submit(requests([1, 1]), paused=True)
    fake.dead.add((1, 0))
    assert handed_out(engine_group) == ["0"]
    engine_group.receive("weights", only_stale=True)
    assert handed_out(engine_group) == ["1"]
    fake.dead.add((0, 0))
    engine_group.lap()  # nothing was in flight: it is found out here
    engine_group.submit(requests([1, 1]), paused=True)
    assert handed_out(engine_group) == ["1"]
    engine_group.receive("weights", only_stale=True)
    assert handed_out(engine_group) == ["0"]
    assert fake.asked("run_group")[-1] == (0, 1, "0")


@pytest.mark.parametrize("paused", [False, True])
def test_on_a_shared_gpu_lost_groups_start_when_the_engines_are_awake_and_not_with_the_weights(fake, paused):
    """The weights come first, while the policy still holds the memory of the engines' caches."""
    engine_group = group(1)
    engine_group.submit(requests([1]), paused=paused)
    fake.dead.add((0, 0))
    assert handed_out(engine_group) == []
    engine_group.sleep()
    engine_group.wake(("weights",))
    engine_group.receive("weights", only_stale=True)
    assert not engine_group.stale
    engine_group.wake()
    methods = [call[2] for call in fake.calls if call[:2] == (0, 1)]
    started = ["hold", "run_group", "release"] if paused else ["run_group"]
    assert methods == ["start", "sleep", "wake", "receive_weights", "wake", *started]
    assert handed_out(engine_group) == ["0"]


def test_groups_of_an_engine_that_dies_of_waking_up_wait_for_the_others_to_be_awake(fake, monkeypatch):
    engine_group = group(2)
    engine_group.submit(requests([1]))
    fake.dead |= {(0, 0), (1, 0)}
    engine_group.lap()  # finds both out
    assert handed_out(engine_group) == []
    engine_group.sleep()
    engine_group.receive("weights", only_stale=True)
    fake.dead.add((0, 1))
    before = fake.asked("run_group")

    def fetch(ref, peer, work):
        assert fake.asked("run_group") == before, f"before the answer to {work!r}"
        return fake.fetch(ref, peer, work)

    monkeypatch.setattr(engines, "fetch", fetch)
    engine_group.wake()
    assert fake.asked("run_group") == [*before, (1, 1, "0")]


def test_an_engine_that_dies_of_a_weight_update_gets_the_next_one(fake):
    engine_group = group(2)
    fake.broken.add((0, 0))
    engine_group.receive("first")
    assert engine_group.replaced
    assert handed_out(engine_group) == []  # it is up
    engine_group.receive("second")
    assert fake.asked("receive_weights") == [(0, 0, "first"), (1, 0, "first"), (0, 1, "second"), (1, 0, "second")]
    assert not engine_group.replaced


def test_a_death_that_both_threads_find_is_one_restart(fake, monkeypatch):
    """While the one waits for the weights to arrive, the other sees the groups of the same process fail."""
    engine_group = group(1)
    engine_group.submit(requests([1]))
    fake.dead.add((0, 0))

    def fetch(ref, peer, work):
        if work == "receive weights":
            assert handed_out(engine_group) == []
        return fake.fetch(ref, peer, work)

    monkeypatch.setattr(engines, "fetch", fetch)
    engine_group.receive("weights")
    assert fake.started[0] == 2
    assert engine_group.stale


def test_a_process_that_takes_the_place_of_one_that_got_weights_has_none(fake, monkeypatch):
    """It is up before the weights are known to have arrived everywhere."""
    engine_group = group(2)
    engine_group.submit(requests([1]))

    def fetch(ref, peer, work):
        answer = fake.fetch(ref, peer, work)
        if work == "receive weights" and (0, 0) not in fake.dead:
            fake.dead.add((0, 0))
            assert handed_out(engine_group) == ["0"]  # found dead, started again, and the other engine asked
        return answer

    monkeypatch.setattr(engines, "fetch", fetch)
    engine_group.receive("weights")
    assert engine_group.stale
    assert engine_group.replaced


def test_that_holds_where_all_take_part_in_a_transfer_too(fake):
    engine_group = group(2)
    engine_group.submit(requests([1]))
    calls, actors = engine_group.begin_receive("weights")
    assert list(calls.values()) == ["vLLM engine 0", "vLLM engine 1"]
    fake.dead.add((0, 0))
    assert handed_out(engine_group) == ["0"]
    engine_group.received(actors)
    assert engine_group.stale


def test_an_engine_that_dies_again_and_again_ends_the_run(fake):
    engine_group = group(1, max_restarts=1)
    engine_group.submit(requests([1]))
    fake.dead |= {(0, 0), (0, 1)}
    with pytest.raises(EngineLost, match=r"vLLM engine 0 is lost, after 1 restarts \(--vllm.max_restarts\): .* ended"):
        handed_out(engine_group)


def test_engines_that_end_are_asked_to_leave_and_then_killed_also_a_second_time(fake):
    engine_group = group(2)
    engine_group.submit(requests([1]))
    fake.broken.add((0, 0))
    for _ in range(2):
        engine_group.end()
    assert [call[:2] for call in fake.calls if call[2] == "shutdown"] == [(0, 0), (1, 0)] * 2
    assert fake.killed == [(0, 0), (1, 0)] * 2


def test_an_engine_generates_while_it_runs_a_group(fake):
    engine_group = group(2)
    assert not engine_group.generating
    engine_group.submit(requests([1]))
    assert engine_group.generating
    fake.dead |= {(0, 0), (1, 0)}
    assert handed_out(engine_group) == []  # the group waits for weights
    assert not engine_group.generating


def test_a_key_error_of_the_work_is_no_dropped_call(fake, monkeypatch):
    engine_group = group(1)
    engine_group.submit(requests([1]))

    def fetch(ref, peer, work):
        raise KeyError("label")

    monkeypatch.setattr("openrlhf.cluster.flight.fetch", fetch)
    with pytest.raises(KeyError, match="label"):
        engine_group.next_group(within=0.0)


def test_an_engine_that_does_not_come_up_is_named(fake):
    engine_group = group(1)
    engine_group.submit(requests([1]))
    fake.dead.add((0, 0))
    fake.silent.add("start")
    assert engine_group.next_group(within=0.0) is None
    engine_group._flight._calls = {
        ref: SimpleNamespace(peer=call.peer, work=call.work, seconds=call.seconds, deadline=0.0)
        for ref, call in engine_group._flight._calls.items()
    }
    with pytest.raises(PeerTimeout, match="vLLM engine 0 did not finish 'load the model' within 600 s"):
        engine_group.next_group()
