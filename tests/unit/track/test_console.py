import io

from rich.console import Console

from openrlhf.track.console import ConsoleProgress, describe_step

METRICS = {
    "rollout/reward_mean": 0.5,
    "rollout/response_length_mean": 13.25,
    "rollout/tokens_generated": 800.0,
    "timing/generation": 2.0,
    "timing/ppo_train": 9.5,
    "timing/broadcast": 0.01,
    "timing/step_total": 12.0,
}


def test_the_line_shows_step_reward_length_speed_and_phases():
    # 800 tokens in 2.0 s of generation: 400 tokens/s. The 0.01 s of broadcast are too short to show.
    assert describe_step(3, 20, METRICS) == (
        "step  3/20  reward 0.500  length 13.2  400 tokens/s  12.0 s (generation 2.0, ppo_train 9.5)"
    )


def test_metrics_that_are_missing_are_left_out():
    assert describe_step(1, 5, {"rollout/num_samples": 0.0}) == "step 1/5"


def test_without_a_terminal_every_step_is_one_plain_line():
    out = io.StringIO()
    progress = ConsoleProgress(20, Console(file=out, force_terminal=False, width=40))
    progress.write(3, METRICS)
    progress.write(3, {"eval_default_pass1": 0.75})
    progress.close()
    lines = out.getvalue().splitlines()
    assert lines == [describe_step(3, 20, METRICS), "evaluation after step 3  default_pass1 0.750"]
    assert "\x1b" not in out.getvalue()


def test_on_a_terminal_a_bar_counts_the_steps():
    out = io.StringIO()
    progress = ConsoleProgress(20, Console(file=out, force_terminal=True, width=160))
    progress.write(3, METRICS)
    progress.close()
    bar = [line for line in out.getvalue().splitlines() if "training" in line][-1]
    assert "\x1b" in bar
    assert "3/20" in bar
    assert "reward 0.500" in bar
