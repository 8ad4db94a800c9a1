"""deepgym serve"""

import ipaddress
import logging
import os
from pathlib import Path
from typing import Annotated, Literal

import tyro

from deepgym.cli.errors import UsageError
from deepgym.cli.options import Where
from deepgym.registry import list_environments

KEY_VARIABLE = "DEEPGYM_API_KEY"
# Longer than any client keeps an idle connection (aiohttp 15 s, httpx 5 s, nginx 60 s). With uvicorn's own 5 s a pooled
# connection can end just when a request is on its way, and a client may not send a POST again by itself.
KEEP_ALIVE_S = 75


def serve(
    environments: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="ENVIRONMENT ...")] = (),
    *,
    infra_failure_score: Literal["nan", "zero"],
    host: str = "127.0.0.1",
    port: int = 8000,
    max_parallel: int = 32,
    api_key_file: Path | None = None,
    no_api_key: bool = False,
    where: Annotated[Where, tyro.conf.arg(name="")] = Where(),  # noqa: B008 (frozen)
) -> int:
    """Serve reward endpoints, code execution for tools, metrics and a page for people.

    Clients send the API key as `Authorization: Bearer KEY`, as `X-API-Key: KEY`, or as http://user:KEY@host.

    Args:
        environments: Names, or paths of folders; default: all. A single one also answers at /reward/score.
        infra_failure_score: What a sample without a verdict gets: nan (its group is dropped by
            --algo.dynamic_filtering_enable, which it needs) or zero (counts as a failed answer).
        host: Address to listen on. Beyond this machine it takes an API key.
        port: Port to listen on; 0 picks a free one.
        max_parallel: Runs that hold a slot at once, over all routes; --parallel of them run.
        api_key_file: File that holds the API key; default: the environment variable DEEPGYM_API_KEY.
        no_api_key: Listen beyond this machine without a key: whoever reaches the port runs code here.
        where: Which environments there are, and where answers run.
    """
    try:
        import uvicorn

        from deepgym.api.app import create_app
    except ModuleNotFoundError as error:
        raise UsageError(f"serving needs {error.name}: pip install 'openrlhf[deepgym]'") from error
    key = _api_key(api_key_file, host, no_api_key)
    names = environments or list_environments(where.folder)
    loaded = [where.environment(name) for name in names]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with where.gym(names) as dg:
        dg.start()
        try:
            app = create_app(
                dg, loaded, infra_failure_score=infra_failure_score, max_parallel=max_parallel, api_key=key
            )
        except ValueError as error:
            raise UsageError(str(error)) from error
        uvicorn.run(
            app,
            host=host,
            port=port,
            log_config=None,  # one form of log lines, ours
            access_log=False,  # /metrics counts requests
            timeout_graceful_shutdown=5,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
    return 0


def _api_key(path: Path | None, host: str, none_wanted: bool) -> str | None:
    """The key, from the file or the environment; None where none is needed."""
    if path is not None:
        try:
            key = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--api_key_file {path} cannot be read: {error}") from error
        if not key:
            raise UsageError(f"--api_key_file {path} is empty")
    else:
        key = os.environ.get(KEY_VARIABLE, "").strip()
    if key and none_wanted:
        raise UsageError(f"--no_api_key, but a key is given by {path or KEY_VARIABLE}")
    if not key and not none_wanted and not _is_loopback(host):
        raise UsageError(
            f"listening on {host} lets others run code here: give --api_key_file or set {KEY_VARIABLE}, "
            "or say --no_api_key"
        )
    return key or None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
