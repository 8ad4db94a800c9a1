"""Where the servers are, read anew each time."""

import pytest

from openrlhf.config.env import EnvConfig
from openrlhf.env.proxy import NoAddress, server_address


def test_the_file_is_read_at_every_call(tmp_path):
    file = tmp_path / "ip.txt"
    env = EnvConfig(proxy_file=str(file))
    file.write_text("http://10.0.0.1/\nsecond line\n")
    assert server_address(env) == "http://10.0.0.1"
    file.write_text("10.0.0.2\n")
    assert server_address(env) == "http://10.0.0.2"


@pytest.mark.parametrize("content", [None, "", "\n\n", "   \nhttp://10.0.0.1"])
def test_a_missing_or_blank_file_is_no_address_now(tmp_path, content):
    file = tmp_path / "ip.txt"
    if content is not None:
        file.write_text(content)
    with pytest.raises(NoAddress, match=r"--env\.proxy_file"):
        server_address(EnvConfig(proxy_file=str(file)))


def test_the_flag_wins_and_nothing_is_none(tmp_path):
    assert server_address(EnvConfig(proxy_file=str(tmp_path / "none"), server="http://here/")) == "http://here"
    assert server_address(EnvConfig()) is None
