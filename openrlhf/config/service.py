"""What the commands that serve have in common: where they listen, and the checks of it."""

from collections.abc import Mapping

from openrlhf.config.base import Section


class ServiceConfig(Section):
    """Where a service listens. A subclass gives its own port."""

    host: str = "0.0.0.0"
    """Address to listen on."""
    port: int = 0
    """Port to listen on; 0: a free one, which is printed."""


def port_problems(port: int) -> list[str]:
    return [] if 0 <= port < 1 << 16 else [f"--port {port}: must be from 0 to 65535"]


def counts_below_1(counts: Mapping[str, int | None]) -> list[str]:
    """One problem for each flag whose number is 0 or less; None, a flag that was left out, passes."""
    return [
        f"--{flag} {count}: must be at least 1" for flag, count in counts.items() if count is not None and count < 1
    ]
