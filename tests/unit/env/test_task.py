"""What a task sees of a sample."""

import pytest

from tests.unit.env.samples import task_sample

SPECIAL = ("<end_of_turn>", "<turn>", "of_<turn>", "")


@pytest.mark.parametrize(
    ("response", "text", "ends"),
    [
        ("it is 7", "it is 7", ()),
        ("it is 7<eos>", "it is 7", ("<eos>",)),
        ("it is 7<end_of_turn>", "it is 7", ("<end_of_turn>",)),
        ("it is 7 <end_of_turn>\n<eos> \n", "it is 7", ("<eos>", "<end_of_turn>")),
        ("it is 7 of_<turn>", "it is 7", ("of_<turn>",)),  # the longest that fits
        ("<turn> it is 7", "<turn> it is 7", ()),
        ("<end_of_turn>", "", ("<end_of_turn>",)),
        ("", "", ()),
    ],
)
def test_special_tokens_behind_a_response_are_not_graded(response, text, ends):
    sample = task_sample(response, special_tokens=SPECIAL)
    assert (sample.text, sample.ends) == (text, ends)
    assert sample.response == response
