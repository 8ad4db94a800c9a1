import pytest

from deepgym.integrations.trl import create_trl_reward, response_text
from deepgym.models import BatchResult, ErrorType
from tests.deepgym_fakes import environment, no_verdict, verdict


class Batches:
    def __init__(self, *results):
        self.results, self.answers = results, []

    def run_batch(self, env, answers):
        self.answers = list(answers)
        return BatchResult(self.results)


def test_no_verdict_is_none_and_never_zero(caplog):
    gym = Batches(verdict(1.0), no_verdict(ErrorType.SANDBOX_ERROR), verdict(0.0))
    reward = create_trl_reward(environment(), gym)
    completions = ["```\na\n```", [{"role": "assistant", "content": "b"}], "c"]
    assert reward(prompts=["p"] * 3, completions=completions, completion_ids=[[1]] * 3, answer=["x"] * 3) == [
        1.0,
        None,
        0.0,
    ]
    assert gym.answers == ["a\n", "b", "c"]
    assert "no verdict (sandbox_error) and gets None" in caplog.text


def test_its_name_is_the_environments():
    assert create_trl_reward(environment("coins"), Batches()).__name__ == "deepgym_coins"


def test_the_assistants_last_message_is_the_response():
    chat = [
        {"role": "assistant", "content": "first", "tool_calls": []},
        {"role": "tool", "content": "42"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "se"}, {"type": "image"}, {"type": "text", "text": "cond"}],
        },
        {"role": "tool", "content": "43"},
    ]
    assert response_text(chat) == "second"
    assert response_text(chat[:2]) == "first"
    assert response_text([]) == ""
    assert response_text([{"role": "assistant", "content": None}]) == ""
    assert response_text([{"role": "assistant", "content": [{"type": "text", "text": None}]}]) == ""


@pytest.mark.parametrize("completion", [None, 5, [{"content": "x"}], [{"from": "gpt", "value": "x"}], ["x"], b"x"])
def test_what_is_no_completion_is_an_error_and_no_score(completion):
    gym = Batches(verdict(0.0))
    with pytest.raises(TypeError, match=r"a completion.* must be"):
        create_trl_reward(environment(), gym)(completions=[completion])
    assert gym.answers == []
