"""The reward source that `--reward.remote_url` names, or none yet where reward models grade later."""

from openrlhf.config.reward import RewardConfig
from openrlhf.config.secret import without_login
from openrlhf.interfaces import RewardSource
from openrlhf.reward.errors import RewardError
from openrlhf.reward.http import HttpReward
from openrlhf.reward.pending import PendingReward
from openrlhf.reward.python_function import PythonReward

FLAG = "--reward.remote_url"


def make_reward(reward: RewardConfig, timeout_s: float = 180.0) -> RewardSource:
    """A `PythonReward` for one `.py` path, an `HttpReward` for one or more http addresses (comma list), and a
    `PendingReward` where only --reward.model_name_or_path is given.

    Args:
        timeout_s: seconds for one call of the function, or one try at a server.

    Raises:
        RewardError: the value is neither, or what it names cannot be used.
    """
    sources = reward.sources
    if not sources and reward.models:
        return PendingReward()
    if not sources:
        raise RewardError(f"{FLAG} is not set: give a Python file with reward_func, or the address of a reward server")
    if all(source.startswith(("http://", "https://")) for source in sources):
        return HttpReward(sources, timeout_s=timeout_s)
    if reward.is_function:
        return PythonReward(sources[0], timeout_s=timeout_s, concurrency=reward.max_concurrent)
    raise RewardError(
        f"{FLAG} {without_login(reward.remote_url or '')!r} is neither one Python file (a path that ends in .py) nor "
        "addresses of reward servers (each starting with http:// or https://, separated by commas)"
    )
