"""SPEC section 2, single turn, with its marked mistake repaired."""

import pytest

from openrlhf.env.episode.budget import plan_budget, validate_budget

PROMPT = [11, 12, 13, 14, 15, 16, 17]  # 7 tokens


@pytest.mark.parametrize(
    ("max_tokens", "max_length", "kept", "room"),
    [
        (4, 11, PROMPT, 4),  # 7 + 4 = 11 fits exactly
        (4, 10, PROMPT[-6:], 4),  # one token too long: the first goes
        (9, 10, PROMPT[-1:], 9),  # 10 - 9 = 1 prompt token left
        (None, 10, PROMPT, 3),  # 10 - 7 = 3
        (None, 8, PROMPT, 1),
        (None, 7, PROMPT[-6:], 1),  # nothing left after the prompt: max(1, 0) = 1, prompt cut to 6
        (None, 2, PROMPT[-1:], 1),
    ],
)
def test_the_prompt_keeps_its_end_and_the_response_its_room(max_tokens, max_length, kept, room):
    budget = plan_budget(PROMPT, max_tokens, max_length)
    assert budget.prompt_token_ids == kept
    assert budget.max_tokens == room
    assert len(budget.prompt_token_ids) + budget.max_tokens <= max_length


@pytest.mark.parametrize("max_tokens", [0, -1, 10, 11])
def test_a_response_without_room_for_a_prompt_is_refused(max_tokens):
    # max_tokens == max_length is the marked mistake: prompt[-0:] would keep the whole prompt.
    with pytest.raises(ValueError, match=r"rollout\.max_new_tokens is -?\d+.*data\.max_len 10: give at most 9"):
        plan_budget(PROMPT, max_tokens, 10)


def test_validate_budget_names_a_context_that_holds_nothing():
    with pytest.raises(ValueError, match=r"data\.max_len is 1"):
        validate_budget(None, 1)
    validate_budget(None, 2)
    validate_budget(1, 2)


def test_a_prompt_with_images_is_never_cut():
    assert plan_budget(PROMPT, 3, 10, has_images=True).prompt_token_ids == PROMPT
    with pytest.raises(ValueError, match="a prompt with images has 7 tokens but only 6 fit"):
        plan_budget(PROMPT, 4, 10, has_images=True)


def test_an_empty_prompt_is_refused():
    with pytest.raises(ValueError, match="no tokens"):
        plan_budget([], 4, 10)


@pytest.mark.parametrize(
    ("max_tokens", "max_length", "kept"),
    [
        (4, 11, PROMPT),  # all 7 fit
        (4, 10, [11, 13, 14, 15, 16, 17]),  # 6 fit: the first and the last 5
        (8, 10, [11, 17]),
        (9, 10, [17]),  # 1 fits: the first alone would say nothing of the prompt
        (None, 7, [11, 13, 14, 15, 16, 17]),
    ],
)
def test_a_cut_prompt_keeps_the_token_that_begins_every_text(max_tokens, max_length, kept):
    budget = plan_budget(PROMPT, max_tokens, max_length, opening=11)
    assert budget.prompt_token_ids == kept
    # A prompt that does not begin with it does not get it here.
    assert plan_budget(PROMPT, 4, 10, opening=12).prompt_token_ids == PROMPT[-6:]
