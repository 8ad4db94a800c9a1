import logging
import math

import numpy as np
import pytest
import torch

from openrlhf.reward.tally import Tally
from openrlhf.rollout.errors import AgentReturnError
from openrlhf.rollout.step_result import read_reset, read_shown, read_step
from openrlhf.types import SamplingParams
from tests.pictures import picture, plain

CURRENT = SamplingParams(max_tokens=8)


def read(**answer):
    return read_step({"rewards": 1.0, "done": False, **answer}, CURRENT, "Agent", Tally())


@pytest.mark.parametrize(
    "value",
    [1, 1.0, True, np.float32(1), np.array([1.0]), torch.tensor(1.0), torch.tensor([1]), [1.0]],
    ids=lambda value: f"{type(value).__name__}-{value}",
)
def test_one_number_in_any_form_is_a_reward_and_a_score(value):
    result = read(rewards=value, scores=value)
    assert (result.reward, result.score) == (1.0, 1.0)
    assert type(result.reward) is float


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf, 1e39, torch.tensor(math.nan)])
def test_no_finite_number_is_no_verdict(value):
    assert math.isnan(read(rewards=value).reward)


def test_what_is_left_out_has_its_default():
    result = read()
    assert (result.score, result.feedback, read_shown(result, "Agent"), result.extra_logs) == (None, "", (), {})
    assert result.sampling is CURRENT
    assert read(environment_feedback=None, scores=None, extra_logs=None) == result


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "Agent.step returned NoneType None; expected a dict with rewards, done"),
        ({"done": True}, "Agent.step returned no 'rewards', only done"),
        ({"rewards": 1.0}, "Agent.step returned no 'done', only rewards"),
        ({"rewards": "1", "done": True}, "Agent.step returned rewards str '1'; expected one number"),
        ({"rewards": torch.ones(2), "done": True}, "Agent.step returned rewards Tensor"),
        ({"rewards": 1, "done": "yes"}, "Agent.step returned done str 'yes'; expected True or False"),
        ({"rewards": 1, "done": None}, "Agent.step returned done NoneType None"),
        ({"rewards": 1, "done": True, "environment_feedback": 3}, "environment_feedback int 3; expected a string"),
        ({"rewards": 1, "done": True, "extra_logs": 3}, "extra_logs int 3; expected a dict of numbers"),
        (
            {"rewards": 1, "done": True, "sampling_params": 3},
            "sampling_params int 3; expected SamplingParams or a dict",
        ),
    ],
)
def test_a_wrong_form_is_named(answer, message):
    with pytest.raises(AgentReturnError) as failure:
        read_step(answer, CURRENT, "Agent", Tally())
    assert message in str(failure.value)


def test_reset_returns_an_observation():
    assert read_reset({"observation": "hello"}, "Agent", Tally()) == "hello"
    with pytest.raises(AgentReturnError, match=r"Agent\.reset returned no 'observation', only text"):
        read_reset({"text": "hello"}, "Agent", Tally())
    with pytest.raises(AgentReturnError, match=r"Agent\.reset returned observation list"):
        read_reset({"observation": ["hello"]}, "Agent", Tally())


def test_what_is_not_used_is_said_once(caplog):
    tally = Tally()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            answer = {"rewards": 1, "done": 1, "reward": 3, "extra_logs": {"name": "x", "n": 1}}
            assert read_step(answer, CURRENT, "Agent", tally).extra_logs == {"n": 1.0}
    assert [record.message.split(",")[0] for record in caplog.records] == [
        "Agent.step returned 'reward'",
        "Agent.step returned extra_logs['name'] str 'x'",
    ]


@pytest.mark.parametrize("images", [plain(), [plain()], (picture(),)])
def test_one_image_or_several(images):
    assert read_shown(read(environment_images=images), "Agent") == (picture(),)


def test_images_behind_done_are_not_read():
    assert read_shown(read(done=True, environment_images=["/no/such.png"]), "Agent") == ()
