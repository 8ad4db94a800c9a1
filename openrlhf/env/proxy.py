"""Where the servers for code and verification are: `--env.server`, or the first line of `--env.proxy_file`."""

from pathlib import Path

from openrlhf.config.env import EnvConfig


class NoAddress(Exception):
    """The file that says where the servers are is missing, empty, or holds no address right now."""


def server_address(env: EnvConfig) -> str | None:
    """The address (`http://host`, without a final slash) as it is now; None where neither flag is set.

    Raises:
        NoAddress: the file cannot be read or its first line is no address. It may be there at the next request.
    """
    if env.server is not None:
        return env.server.rstrip("/")
    if env.proxy_file is None:
        return None
    try:
        lines = Path(env.proxy_file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise NoAddress(f"--env.proxy_file {env.proxy_file}: {error}") from error
    first = lines[0].strip() if lines else ""
    if not first:
        raise NoAddress(f"--env.proxy_file {env.proxy_file}: its first line is empty; expected http://host")
    return (first if "://" in first else f"http://{first}").rstrip("/")
