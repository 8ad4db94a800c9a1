"""`--reward.remote_url`: which source a value makes."""

import asyncio

import pytest

from openrlhf.config.reward import RewardConfig
from openrlhf.reward.errors import RewardError
from openrlhf.reward.http import HttpReward
from openrlhf.reward.make import make_reward
from openrlhf.reward.python_function import PythonReward
from openrlhf.types import Prompt


@pytest.mark.parametrize(
    "value",
    [
        "http://127.0.0.1:5000/get_reward",
        "https://host/get_reward/",
        "http://a:1/r, http://b:2/r",
        "http://rewards.py",
    ],
)
async def test_addresses(value):
    assert isinstance(make_reward(RewardConfig(remote_url=value)), HttpReward)


async def test_a_python_file(tmp_path):
    path = tmp_path / "r.py"
    path.write_text("def reward_func(queries, prompts, labels): return 1\n")
    assert isinstance(make_reward(RewardConfig(remote_url=str(path))), PythonReward)


@pytest.mark.parametrize(
    "value",
    [None, "", ",", "localhost:5000/get_reward", "reward_func", "r.txt", "a.py,b.py", "a.py,http://b/r", "ftp://a/r"],
)
def test_anything_else_names_the_flag(value):
    with pytest.raises(RewardError, match=r"--reward\.remote_url"):
        make_reward(RewardConfig(remote_url=value))


@pytest.mark.parametrize("value", ["http://", "http://:80/x", "http://a:port/x"])
def test_an_address_without_a_host_is_refused(value):
    with pytest.raises(RewardError, match="reward server"):
        make_reward(RewardConfig(remote_url=value))


async def test_a_missing_file_is_an_early_error():
    with pytest.raises(RewardError, match=r"no/such/file\.py: does not exist"):
        make_reward(RewardConfig(remote_url="no/such/file.py"))


@pytest.mark.parametrize(
    "value", ["http://user:pw@x:abc/", "http://user:p@pw@x:abc/", "http://user:pw@", "ftp://u:pw@x"]
)
def test_a_password_in_a_bad_address_is_not_shown(value):
    with pytest.raises(RewardError) as caught:
        make_reward(RewardConfig(remote_url=value))
    assert "pw" not in str(caught.value)
    assert "://***@" in str(caught.value)


@pytest.mark.parametrize("name", ["x" * 300 + ".py", "a\0b.py", "~nobody-of-that-name/r.py"])
async def test_a_name_that_no_file_can_have_does_not_exist(name):
    with pytest.raises(RewardError, match="does not exist"):
        make_reward(RewardConfig(remote_url=name))


async def test_a_file_with_a_comma_in_its_path_is_one_source(tmp_path):
    folder = tmp_path / "a,b"
    folder.mkdir()
    (folder / "r.py").write_text("def reward_func(queries, prompts, labels): return 1\n")
    assert isinstance(make_reward(RewardConfig(remote_url=str(folder / "r.py"))), PythonReward)


async def test_the_flag_bounds_the_calls_at_work_at_once(tmp_path):
    (tmp_path / "r.py").write_text("""
import threading, time
now, peak, lock = 0, 0, threading.Lock()
def reward_func(queries, prompts, labels):
    global now, peak
    with lock:
        now += 1
        peak = max(peak, now)
    time.sleep(0.01)
    with lock:
        now -= 1
    return peak
""")
    source = make_reward(RewardConfig(remote_url=str(tmp_path / "r.py"), max_concurrent=2))
    outcomes = await asyncio.gather(*(source.score("q", Prompt(0, "q"), "") for _ in range(8)))
    assert max(outcome.reward for outcome in outcomes) == 2
    await source.close()
