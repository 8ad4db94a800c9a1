import math

from openrlhf.track.reward_curve import draw_reward_curve, points

ROWS = [
    {"step": 0, "eval_default_pass1": 0.1},
    {"step": 1, "rollout/reward_mean": 0.2},
    {"step": 2, "rollout/reward_mean": math.nan},
    {"step": 3, "rollout/reward_mean": 0.9, "eval_default_pass1": 0.95},
]


def test_points_leave_out_steps_without_a_finite_value():
    assert points(ROWS, "rollout/reward_mean") == ([1, 3], [0.2, 0.9])
    assert points(ROWS, "eval_default_pass1") == ([0, 3], [0.1, 0.95])


def test_the_picture_is_a_png(tmp_path):
    assert draw_reward_curve(ROWS, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_to_draw_leaves_no_file(tmp_path):
    assert not draw_reward_curve([{"step": 1, "train/kl": 0.0}], tmp_path / "curve.png")
    assert not (tmp_path / "curve.png").exists()
