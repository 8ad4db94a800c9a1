"""Knights and knaves, zebra puzzles."""

import time

import pytest

from openrlhf.env.errors import EnvError
from openrlhf.env.logic.filters import logic_exp_filter, logic_sample_filter
from openrlhf.env.logic.kk import check_kk_label, kk_reward, named, share_right
from openrlhf.env.logic.zebralogic import zebralogic_reward
from tests.unit.env.samples import filter_sample, task_sample, tools

GOLD = "Ann is a knight, Bob is a knave and Cy is a knave."


@pytest.mark.parametrize(
    ("answer", "share"),
    [
        (GOLD, 1.0),
        ("Ann is a **knight**, _Bob_ is a __knave__, and `Cy` is the knave.", 1.0),
        ("(1) Ann is a knight (2) bob is a KNAVE (3) Cy is a knight", 2 / 3),
        ("Ann: is a knave, Bob is a knight, Cy is a knight", 0.0),
        ("Ann is a knight, Bob is a knave", 0.0),  # too few
        (GOLD + " Or Ann is a knave.", 0.0),  # too many
        ("A knight is a knight, Bob is a knave", 1 / 3),  # three role words, and Bob is right
        ("", 0.0),
    ],
)
def test_the_share_of_right_roles(answer, share):
    assert share_right(answer, GOLD) == pytest.approx(share)


@pytest.mark.parametrize("text", ["a'" * 30_000, "Ann " + "- " * 30_000, "is " * 30_000, "knight " * 10_000])
def test_a_long_odd_answer_costs_little_time(text):
    started = time.process_time()
    assert share_right(text, GOLD) == 0.0
    assert time.process_time() - started < 1.0


def test_other_words_for_the_roles():
    assert named("Ann is an angel, Bob is a devil.", ("angel", "devil")) == {"ann": "angel", "bob": "devil"}


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (f"so </think> <answer> {GOLD} </answer><eos>", (2.0, 1.0)),
        (f"so <answer> {GOLD} </answer>", (0.0, 1.0)),  # no </think>: -1 + 1
        ("so </think> <answer> nobody </answer>", (1.0, 0.0)),
        ("so </think> nobody", (-1.0, 0.0)),
        (f"so </think> <answer> {GOLD} </answer>" + " x" * 50, (2.0, 1.0)),
        (f"so </think> <answer> {GOLD} </answer>" + " x" * 51, (0.0, 1.0)),
    ],
)
async def test_kk(response, expected):
    answer = await kk_reward(task_sample(response, {"gold_ans": GOLD}), tools())
    assert (answer["rewards"], answer["answer_rewards"]) == expected


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (r"so </think> <answer> \boxed{ Red House } </answer>", (2.0, 1.0)),
        (r"so </think> <answer> \boxed{\textbf{Red~House}.} </answer>", (2.0, 1.0)),
        (r"so </think> <answer> \boxed{$Red\ House$} </answer>", (2.0, 1.0)),
        (r"so </think> <answer> \boxed{blue house} </answer>", (1.0, 0.0)),
        ("so </think> <answer> red house </answer>", (-1.0, 0.0)),  # no box
        (r"so <answer> \boxed{red house} </answer>", (0.0, 1.0)),
        ("nothing", (-1.0, 0.0)),
    ],
)
async def test_zebralogic(response, expected):
    answer = await zebralogic_reward(task_sample(response, {"gold_ans": "redhouse"}), tools())
    assert (answer["rewards"], answer["answer_rewards"]) == expected


TWO_ANNS = "Mary Ann is a knight, Jo Ann is a knave"  # both are `ann`: no answer could be right


@pytest.mark.parametrize(
    "label", [{"gold_ans": "42"}, {}, {"gold_ans": GOLD, "roles": "knight"}, {"gold_ans": TWO_ANNS}]
)
def test_kk_labels_that_no_answer_fits(label):
    with pytest.raises(EnvError, match="task kk"):
        check_kk_label(label)


def test_logic_filters():
    assert not logic_exp_filter(filter_sample(0.0, num_tokens=1000))
    assert logic_exp_filter(filter_sample(0.0, num_tokens=1001))
    assert logic_exp_filter(filter_sample(0.0, truncated=True))
    assert logic_sample_filter(filter_sample(1.0, repeatness=0.1))
    assert not logic_sample_filter(filter_sample(1.0, repeatness=0.11))
