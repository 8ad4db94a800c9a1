import sys
import types

import pytest

from openrlhf.config.ppo import PPOConfig
from openrlhf.config.run import LoggerConfig, WandbConfig
from openrlhf.track.errors import TrackError
from openrlhf.track.metrics_file import read_rows
from openrlhf.track.tracker import RunTracker


def make_tracker(folder, **logger):
    return RunTracker(folder, LoggerConfig(**logger), PPOConfig(), total_steps=4)


def test_a_run_leaves_metrics_rollouts_and_the_curve(tmp_path, make_group):
    with make_tracker(tmp_path / "run") as tracker:
        tracker.log(1, {"rollout/reward_mean": 0.5})
        tracker.store_rollouts(1, [make_group("a", 2)], {})
    assert read_rows(tmp_path / "run" / "metrics.jsonl") == [{"step": 1, "rollout/reward_mean": 0.5}]
    assert (tmp_path / "run" / "reward_curve.png").exists()
    assert (tmp_path / "run" / "rollouts" / "step_000001.jsonl.gz").exists()


def test_what_was_logged_is_complete_after_an_error(tmp_path):
    def break_after_one_step():
        with make_tracker(tmp_path) as tracker:
            tracker.log(1, {"rollout/reward_mean": 0.5})
            raise FloatingPointError

    with pytest.raises(FloatingPointError):
        break_after_one_step()
    assert (tmp_path / "reward_curve.png").exists()


def test_what_cannot_be_closed_is_said_and_keeps_nothing_else_open(tmp_path, caplog, monkeypatch):
    """The disk is full: the step's row is refused, and so are the rest of it and the curve when the file is closed."""
    closed = []

    def full(*_):
        raise OSError(28, "No space left on device")

    def break_at_the_second_step():
        with make_tracker(tmp_path) as tracker:
            tracker.log(1, {"rollout/reward_mean": 0.5})
            whole = tracker._metrics.close
            tracker._metrics.write = full
            tracker._metrics.close = lambda: (whole(), full())
            monkeypatch.setattr("openrlhf.track.tracker.draw_reward_curve", full)
            tracker._writers.insert(0, types.SimpleNamespace(close=full))
            tracker._console.close = lambda: closed.append("console")
            tracker.log(2, {"rollout/reward_mean": 0.5})

    with pytest.raises(TrackError, match="No space left on device"):
        break_at_the_second_step()
    assert closed == ["console"]
    assert caplog.text.count("closing it: OSError: [Errno 28] No space left on device") == 3


def test_the_console_follows_logging_steps_and_the_file_has_every_step(tmp_path, capsys):
    with make_tracker(tmp_path, logging_steps=2) as tracker:
        for step in (1, 2, 3):
            tracker.log(step, {"rollout/reward_mean": 0.5})
        tracker.log(3, {"eval_default_pass1": 0.75})
    printed = capsys.readouterr().out
    assert [row["step"] for row in read_rows(tmp_path / "metrics.jsonl")] == [1, 2, 3]
    assert "step 2/4" in printed
    assert "step 1/4" not in printed
    assert "step 3/4" not in printed
    assert "evaluation after step 3" in printed


def test_a_resumed_run_goes_on_after_its_checkpoint(tmp_path):
    with make_tracker(tmp_path) as tracker:
        tracker.log(1, {"rollout/reward_mean": 0.1})
        tracker.log(2, {"rollout/reward_mean": 0.2})
    with make_tracker(tmp_path) as resumed:
        resumed.go_on_after(1)
        resumed.log(2, {"rollout/reward_mean": 0.3})
    assert [row["rollout/reward_mean"] for row in read_rows(tmp_path / "metrics.jsonl")] == [0.1, 0.3]


def test_a_resumed_run_of_another_length_says_so(tmp_path, capsys):
    with make_tracker(tmp_path) as tracker:
        tracker.expect(12)
        tracker.log(3, {"rollout/reward_mean": 0.5})
    assert "step  3/12" in capsys.readouterr().out


def test_tensorboard_events_can_be_read_back(tmp_path):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = tmp_path / "events"
    with make_tracker(tmp_path / "run", tensorboard_dir=str(events)) as tracker:
        tracker.log(1, {"rollout/reward_mean": 0.25})
        tracker.log(2, {"rollout/reward_mean": 0.5})
    reader = event_accumulator.EventAccumulator(str(events))
    reader.Reload()
    assert [(e.step, e.value) for e in reader.Scalars("rollout/reward_mean")] == [(1, 0.25), (2, 0.5)]


class FakeWandb(types.ModuleType):
    """The part of wandb that is used; `refusal` is what init raises."""

    class Error(Exception):
        pass

    def __init__(self, refusal: str | None = None) -> None:
        super().__init__("wandb")
        self.calls, self.refusal = [], refusal

    def Settings(self, api_key, x_disable_meta):
        self.calls.append(("key", api_key))
        return types.SimpleNamespace()

    def init(self, **settings):
        if self.refusal is not None:
            raise self.Error(self.refusal)
        self.calls.append(settings)
        return types.SimpleNamespace(
            log=lambda values, step: self.calls.append((step, values)), finish=lambda: self.calls.append("finished")
        )


def test_wandb_gets_the_run_its_numbers_and_never_the_key(tmp_path, monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    wandb = WandbConfig(key="secret", project="p", group="g", org="o", run_name="name")
    config = PPOConfig(logger=LoggerConfig(wandb=wandb))
    with RunTracker(tmp_path, config.logger, config, total_steps=1) as tracker:
        tracker.log(1, {"a": 1.0, "b": float("nan")})
    key, settings, logged, finished = fake.calls
    assert key == ("key", "secret")
    assert (settings["entity"], settings["project"], settings["group"], settings["name"]) == ("o", "p", "g", "name")
    assert "secret" not in str(settings)
    assert settings["config"]["train"]["seed"] == 42
    assert logged == (1, {"a": 1.0})
    assert finished == "finished"


def test_a_key_that_wandb_refuses_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", FakeWandb("API key must have 40+ characters, has 6.\nSee the docs."))
    with pytest.raises(TrackError, match=r"--logger\.wandb\.key: .*40\+ characters, has 6\.; WANDB_MODE=offline"):
        make_tracker(tmp_path, wandb=WandbConfig(key="secret"))


def test_a_key_without_the_package_names_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(TrackError, match=r"pip install 'openrlhf\[wandb\]'"):
        make_tracker(tmp_path, wandb=WandbConfig(key="secret"))


def test_a_tensorboard_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TrackError, match=r"file/tb: .*choose another --logger\.tensorboard_dir"):
        make_tracker(tmp_path / "run", tensorboard_dir=str(tmp_path / "file" / "tb"))
