"""A TCP port for a server that binds it later."""

import contextlib
import random
import socket

# Above the ports that Ray gives to its workers, and below those that Linux gives to whoever asks for any.
_QUIET_PORTS = range(20_000, 32_000)
_ATTEMPTS = 50


def free_port() -> int:
    """A port of this host that is free, and that nobody is given by chance in the seconds until it is bound.

    Raises:
        OSError: none of 50 tried ones is free.
    """
    for port in random.SystemRandom().sample(_QUIET_PORTS, _ATTEMPTS):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port
    first, last = _QUIET_PORTS[0], _QUIET_PORTS[-1]
    raise OSError(f"none of {_ATTEMPTS} ports between {first} and {last} of this host is free")
