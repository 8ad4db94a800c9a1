import numpy as np
import pytest

from openrlhf.env.episode.tokens import EpisodeTokens
from openrlhf.types import Completion, Turn


def sampled(*ids: int, version: int = 0) -> Completion:
    return Completion(
        np.array(ids, dtype=np.int64),
        -np.arange(1, len(ids) + 1, dtype=np.float32),
        "stop",
        np.full(len(ids), version, np.int32),
    )


def test_the_record_keeps_who_wrote_which_token_and_under_which_weights():
    tokens = EpisodeTokens([5, 6])
    tokens.act(sampled(7, 8, version=2))
    tokens.observe([9])
    tokens.act(sampled(7, version=3))
    tokens.observe([4, 4])
    segment = tokens.segment()
    assert segment.token_ids.tolist() == [5, 6, 7, 8, 9, 7, 4, 4]
    assert segment.action_mask.tolist() == [0, 0, 1, 1, 0, 1, 0, 0]
    assert segment.logprobs.tolist() == [0, 0, -1, -2, 0, -1, 0, 0]
    assert segment.policy_versions.tolist() == [-1, -1, 2, 2, -1, 3, -1, -1]
    assert segment.turns == (Turn(2, 4), Turn(5, 6))
    assert len(tokens) == 8


def test_a_reward_belongs_to_the_last_action():
    tokens = EpisodeTokens([5])
    tokens.reward_last_turn(1.0)  # nobody has acted
    tokens.act(sampled(7))
    tokens.observe([9])
    tokens.reward_last_turn(0.5)
    assert tokens.segment().turns == (Turn(1, 2, 0.5),)


def test_an_empty_completion_is_no_action():
    tokens = EpisodeTokens([5])
    tokens.act(sampled())
    assert not tokens.has_actions
    assert tokens.segment().turns == ()


def test_the_reward_of_a_step_without_tokens_comes_on_top_of_the_action_before():
    tokens = EpisodeTokens([5])
    for completion, reward in ((sampled(7), 0.5), (sampled(), 0.25), (sampled(8), 0.125)):
        tokens.act(completion)
        tokens.reward_last_turn(reward)
    assert tokens.segment().turns == (Turn(1, 2, 0.75), Turn(2, 3, 0.125))


def test_the_ids_handed_out_are_a_copy():
    tokens = EpisodeTokens([5])
    tokens.ids.append(6)
    assert tokens.ids == [5]


def test_something_must_come_before_the_first_action():
    with pytest.raises(ValueError, match="at least one token"):
        EpisodeTokens([])
