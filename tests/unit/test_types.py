"""Records from an earlier day."""

import dataclasses
import pickle

from openrlhf.types import EncodedImage, Prompt

IMAGE = EncodedImage(b"png", "a.png")
OLD = [1, "hi", "7", (IMAGE,), "gsm8k", "math", None]  # the values of a prompt that was saved before `where` was there


def bare():
    return Prompt.__new__(Prompt)


class OldPrompt:
    """Pickles as such a prompt did: an empty object, and the list of its values."""

    def __reduce__(self):
        return bare, (), OLD


def test_a_prompt_without_the_newest_field_is_read_and_written_again():
    prompt = pickle.loads(pickle.dumps(OldPrompt()))
    assert prompt == Prompt(1, "hi", "7", (IMAGE,), "gsm8k", "math")
    assert prompt.where == ""
    assert dataclasses.replace(prompt, prompt_id=2).prompt_id == 2
    again = pickle.loads(pickle.dumps(prompt))
    assert (again, again.where) == (prompt, "")
    today = dataclasses.replace(prompt, where="set.jsonl:3")
    assert pickle.loads(pickle.dumps(today)).where == "set.jsonl:3"
