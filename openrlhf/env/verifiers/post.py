"""One JSON request to a service whose address may change: tried again, each time at the address of that moment.

Connection errors, time-outs, 5xx, 408, 425 and 429 are tried again; any other status than 200 is not.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp

from openrlhf.env.proxy import NoAddress
from openrlhf.http_status import may_pass


class ServiceDown(Exception):
    """No usable answer; the message names the address and the reason."""


class JsonPost:
    """Use it from one event loop."""

    def __init__(self, timeout_s: float, tries: int, pause_s: float = 1.0) -> None:
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._tries = tries
        self._pause_s = pause_s
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, url: Callable[[], str], body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The JSON object that is answered. `url` is called before every try and may raise NoAddress.

        Raises:
            ServiceDown: no try brought one.
        """
        reason = ""
        for attempt in range(self._tries):
            if attempt:
                await asyncio.sleep(self._pause_s)
            try:
                return await self._post(url(), body)
            except (_TryAgain, NoAddress) as error:
                reason = str(error)
        raise ServiceDown(f"{reason}, after {self._tries} tries")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _post(self, url: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0)  # waiting for a connection would count as the service's time
            self._session = aiohttp.ClientSession(connector=connector, timeout=self._timeout)
        try:
            async with self._session.post(url, json=body) as response:
                text = await response.text(errors="replace")
        except TimeoutError as error:
            raise _TryAgain(f"{url}: no answer within {self._timeout.total:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _TryAgain(f"{url}: {type(error).__name__}: {error}") from error
        if may_pass(response.status):
            raise _TryAgain(f"{url}: status {response.status}")
        if response.status != 200:
            raise ServiceDown(f"{url}: status {response.status}, {text[:120]!r}")
        try:
            answer = json.loads(text)
        except ValueError as error:
            raise ServiceDown(f"{url}: not JSON: {text[:120]!r}") from error
        if not isinstance(answer, dict):
            raise ServiceDown(f"{url}: not an object: {text[:120]!r}")
        return answer


class _TryAgain(Exception):
    """One try failed in a way that may pass."""
