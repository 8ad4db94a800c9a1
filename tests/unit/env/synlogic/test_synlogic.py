"""Puzzles of reasoning-gym; its own check is a script here."""

import pytest

from openrlhf.env.errors import EnvError
from openrlhf.env.synlogic.reward import answer_of, check_synlogic_label, synlogic_reward
from openrlhf.env.synlogic.sources import entry_of, generator_of
from tests.unit.env.samples import task_sample, tools

LABEL = {"data_source": "synlogic/game_of_24", "gold_ans": "(1+2)*8", "metadata": {"numbers": [1, 2, 8]}}


@pytest.mark.parametrize(
    ("source", "generator"),
    [("synlogic/game_of_24", "puzzle24"), ("kukurasu", "kakurasu"), ("reasoning_gym/maze", "maze")],
)
def test_names_of_synlogic_and_of_reasoning_gym(source, generator):
    assert generator_of({"data_source": source}) == generator


@pytest.mark.parametrize("source", ["synlogic/minesweeper", "norinori", "", "rubiks_cube"])
def test_a_puzzle_that_nothing_checks_is_refused_with_the_known_ones(source):
    with pytest.raises(EnvError, match=r"game_of_24, kukurasu.*docs/tasks\.md"):
        check_synlogic_label(LABEL | {"data_source": source})


@pytest.mark.parametrize("missing", ["metadata", "gold_ans"])
def test_a_label_without_what_the_check_needs(missing):
    with pytest.raises(EnvError, match=missing):
        check_synlogic_label({key: value for key, value in LABEL.items() if key != missing})


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("so </think> <answer> (1+2)*8 </answer>", "(1+2)*8"),
        (r"<think>\boxed{1}</think> it is \boxed{2}", "2"),
        ("<think>hm</think> 24", "24"),
        ("24", "24"),
    ],
)
def test_where_the_answer_stands(text, answer):
    assert answer_of(text) == answer


@pytest.mark.parametrize(("score", "expected"), [(1.0, (1.0, 1.0)), (0.25, (0.25, 0.25)), (None, (None, None))])
async def test_the_score_of_the_check_is_the_reward(score, expected):
    kit = tools(puzzle=score)
    answer = await synlogic_reward(task_sample("24", LABEL), kit)
    assert (answer["rewards"], answer["answer_rewards"]) == expected
    assert kit.puzzles.asked == [("puzzle24", "24", entry_of(LABEL, "What is 3+4?"))]


async def test_a_template_asks_for_its_form():
    kit = tools(format_enable=True)
    answer = await synlogic_reward(task_sample("24", LABEL | {"template": "ZERO_V2"}), kit)
    assert (answer["rewards"], answer["answer_rewards"]) == (-1.0, 0.0)
    assert kit.puzzles.asked == []
    check_synlogic_label(LABEL | {"template": "ZERO_V2"})
    with pytest.raises(EnvError, match="ZERO_V2"):
        check_synlogic_label(LABEL | {"template": "other"})
