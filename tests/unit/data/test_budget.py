"""Prompts that lose their beginning are counted before the run."""

import pytest

from openrlhf.data.budget import cut_prompts
from openrlhf.types import Prompt


class WordTokenizer:
    """One token per word; remembers what it was asked."""

    bos_token_id = None

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: list[str], add_special_tokens: bool) -> dict[str, list[list[int]]]:
        assert not add_special_tokens
        self.asked += texts
        return {"input_ids": [list(range(len(text.split()))) for text in texts]}


@pytest.mark.parametrize(("budget", "expected"), [(3, {1: 4, 2: 5}), (4, {2: 5}), (5, {})])
def test_prompts_over_the_budget_with_their_lengths(budget, expected):
    texts = ["one two three", "one two three four", "one two three four five"]
    prompts = [Prompt(i, text) for i, text in enumerate(texts)]
    assert cut_prompts(prompts, WordTokenizer(), budget) == expected


def test_what_has_fewer_bytes_than_the_budget_has_tokens_is_not_tokenised():
    tokenizer = WordTokenizer()
    assert cut_prompts([Prompt(0, "x" * 50), Prompt(1, "y " * 100)], tokenizer, 90) == {1: 100}
    assert tokenizer.asked == ["y " * 100]
    # 40 letters of 3 bytes each may be up to 120 tokens.
    cut_prompts([Prompt(0, "数" * 40)], tokenizer, 90)
    assert tokenizer.asked[1:] == ["数" * 40]
