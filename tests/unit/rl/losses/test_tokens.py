"""Loss tokens are taken out before any arithmetic."""

from openrlhf.rl.losses.tokens import select
from tests.unit.rl.losses.making import streams


def test_by_hand():
    found = streams(
        [-1.0, -2.0, -3.0, -4.0],
        [1.0, 2.0, 3.0, 4.0],
        [0, 1, 0, 1],
        [0, 2, 3, 4],
        rollout_logprobs=[0.1, 0.2, 0.3, 0.4],
    )
    tokens = select(found)
    assert tokens.new.tolist() == tokens.old.tolist() == [-2, -4]
    assert tokens.new.requires_grad
    assert not tokens.old.requires_grad
    assert tokens.advantages.tolist() == [2, 4]
    assert tokens.rollout.tolist() == found.rollout_logprobs[[1, 3]].tolist()
    assert (tokens.sequence.tolist(), tokens.num_sequences) == ([0, 2], 3)
    assert tokens.ref is None
    assert tokens.entropy is None


def test_given_streams_are_used():
    found = streams(
        [-1.0, -2.0], [1.0, 1.0], [0, 1], old_logprobs=[5.0, 6.0], ref_logprobs=[7.0, 8.0], entropy=[9.0, 1.0]
    )
    tokens = select(found)
    assert (tokens.old.tolist(), tokens.ref.tolist(), tokens.entropy.tolist()) == ([6], [8], [1])
