"""Length penalties."""

import numpy as np
import pytest

from openrlhf.rl.penalties import overlong_penalty, stop_properly_penalty


def test_overlong_by_hand():
    # Limit 100, buffer 20: free up to 80, then 1/20 per token, all of the factor from 100 on.
    lengths = np.array([0, 80, 81, 90, 100, 130])
    assert overlong_penalty(lengths, 100, 20, 1.0).tolist() == [0, 0, -0.05, -0.5, -1, -1]
    assert overlong_penalty(lengths, 100, 20, 3.0).tolist() == pytest.approx([0, 0, -0.15, -1.5, -3, -3])


def test_a_buffer_of_the_whole_response():
    assert overlong_penalty(np.array([0, 5, 10]), 10, 10, 1.0).tolist() == [0, -0.5, -1]


@pytest.mark.parametrize("buffer", [0, -1, 101])
def test_buffers_that_make_no_sense(buffer):
    with pytest.raises(ValueError, match=f"overlong buffer {buffer} must be over 0 and at most .* 100 tokens"):
        overlong_penalty(np.array([1]), 100, buffer, 1.0)


@pytest.mark.parametrize(
    ("coef", "expected"),
    [
        # Truncated: the first, third and fourth. A factor leaves what is not positive alone; a negative coefficient is
        # the reward.
        (0.5, [0.5, 1, -2, 0, -1]),
        (0.0, [0, 1, -2, 0, -1]),
        (1.0, [1, 1, -2, 0, -1]),
        (-0.5, [-0.5, 1, -0.5, -0.5, -1]),
    ],
)
def test_stop_properly_by_hand(coef, expected):
    rewards, truncated = np.array([1, 1, -2, 0, -1], dtype=np.float32), np.array([1, 0, 1, 1, 0], dtype=bool)
    assert stop_properly_penalty(rewards, truncated, coef).tolist() == expected


def test_running_out_of_tokens_never_pays():
    rewards = np.linspace(-3, 3, 13)
    for coef in (0.0, 0.3, 1.0):
        assert (stop_properly_penalty(rewards, np.ones(13, dtype=bool), coef) <= rewards).all()
    with pytest.raises(ValueError, match=r"1\.5 must be at most 1"):
        stop_properly_penalty(rewards, np.ones(13, dtype=bool), 1.5)
