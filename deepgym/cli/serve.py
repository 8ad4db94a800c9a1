"""deepgym serve"""

import contextlib
import ipaddress
import logging
import os
import socket
from collections.abc import Iterator
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
MAX_PORT = 65535

logger = logging.getLogger(__name__)


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
    if not 0 <= port <= MAX_PORT:
        raise UsageError(f"--port {port}: ports go from 0, for any free one, to {MAX_PORT}")
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
        config = uvicorn.Config(
            app,
            log_config=None,  # one form of log lines, ours
            access_log=False,  # /metrics counts requests
            timeout_graceful_shutdown=5,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        # Not uvicorn's own binding: it cuts a port to 16 bits, and answers a taken one with log lines and exit code 3.
        with _listening(host, port) as sockets, contextlib.suppress(KeyboardInterrupt):
            shown = f"[{host}]" if ":" in host else host
            logger.info("Uvicorn running on http://%s:%d (Press CTRL+C to quit)", shown, sockets[0].getsockname()[1])
            uvicorn.Server(config).run(sockets=sockets)
    return 0


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Sockets that listen at every address of `host`, all at the same port. UsageError if that cannot be."""
    with contextlib.ExitStack() as opened:
        sockets: list[socket.socket] = []
        try:
            found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, kind, protocol, _, address in dict.fromkeys(found):
                try:
                    sockets.append(opened.enter_context(socket.socket(family, kind, protocol)))
                except OSError:  # IPv6 is in the file of hosts, but not in the kernel
                    continue
                sockets[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:  # IPv4 has a socket of its own
                    sockets[-1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                # Of port 0, the pick of the first address is taken for the others too.
                sockets[-1].bind((address[0], sockets[0].getsockname()[1] or port, *address[2:]))
                sockets[-1].listen()
            if not sockets:
                raise OSError("this machine has none of the address's families")
        except (OSError, UnicodeError) as error:  # UnicodeError: no name of a host
            raise UsageError(f"--host {host} --port {port}: cannot listen there: {error}") from error
        yield sockets


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
    if not (key.isascii() and key.isprintable()):  # clients encode other characters in different ways
        raise UsageError(f"the API key of {path or KEY_VARIABLE} has to be printable ASCII characters only")
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
