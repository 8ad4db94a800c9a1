"""Rewards from HTTP servers: one POST per sample, several addresses used in turn.

    request   {"query": [prompt + response], "prompts": [prompt], "labels": [label]}
    response  {"rewards": [number], "scores": [number], "extra_logs": {...}}    scores and extra_logs optional

NaN may stand in the response (the literal that `json` and DeepGym write) and means no verdict; null does too.
5xx, 408, 425, 429, time-outs and connection errors are tried again, at the next address. When the tries are used up
the sample is ungraded. So is one that a server refuses (413, 422: DeepGym's answer to a text of over 2,000,000
characters) among samples that it takes: one degenerate response must not end a run. Another status, or a body of
another form, will not get better by asking again: RewardError.
"""

import asyncio
import itertools
import json
from collections.abc import Sequence
from typing import Any

import aiohttp
from yarl import URL

from openrlhf.config.secret import without_login
from openrlhf.http_status import may_pass
from openrlhf.reward.errors import RewardError
from openrlhf.reward.normalise import EXPECTED, normalise
from openrlhf.reward.tally import Tally
from openrlhf.types import Prompt, RewardOutcome

MAX_BODY_BYTES = 1 << 24
REFUSALS = 8  # samples refused before the first is taken: then it is the form of the requests, not a sample
_REFUSED = (413, 422)
_RETRIED = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError)


class HttpReward:
    """A RewardSource for one event loop, on which its session opens with the first sample.

    Args:
        urls: http or https addresses; sample i starts at address i mod their number.
        timeout_s: seconds for one try, from connecting to the last byte.
        tries: attempts per sample, all addresses together.
        pause_s: seconds between two tries.
        concurrency: requests in flight at once.

    Raises:
        RewardError: an address is no http address.
    """

    def __init__(
        self,
        urls: Sequence[str],
        timeout_s: float = 180.0,
        tries: int = 5,
        pause_s: float = 1.0,
        concurrency: int = 256,
    ) -> None:
        self._urls = [_checked(url) for url in urls]
        if not self._urls:
            raise RewardError("reward server: no address given")
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._tries = tries
        self._pause_s = pause_s
        self._slots = asyncio.Semaphore(concurrency)
        self._starts = itertools.cycle(range(len(self._urls)))
        self._session: aiohttp.ClientSession | None = None
        self._tally = Tally()
        self._taken = False  # whether a sample has been
        self._refused = 0

    async def score(self, query: str, prompt: Prompt, response: str) -> RewardOutcome:
        """Grade one sample.

        Raises:
            RewardError: a server refused the request, or the first REFUSALS samples, or answered in a wrong form.
        """
        payload = {"query": [query], "prompts": [prompt.text], "labels": [prompt.label]}
        failure = ""
        async with self._slots:
            for attempt, start in enumerate([next(self._starts)] * self._tries):
                if attempt:
                    await asyncio.sleep(self._pause_s)
                url = self._urls[(start + attempt) % len(self._urls)]
                try:
                    return self._outcome(url, await self._post(url, payload))
                except _TryAgain as error:
                    failure = str(error)
                except _Refused as error:
                    return self._ungraded("refused", f"the sample was refused: {error}")
        return self._ungraded("http", f"no verdict after {self._tries} tries; the last: {failure}")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def stats(self) -> dict[str, int]:
        """Ungraded samples so far, by kind."""
        return self._tally.counts()

    def _outcome(self, url: URL, body: str) -> RewardOutcome:
        outcome = parse_body(body, 1, f"reward server {shown(url)}", self._tally)[0]
        self._taken = True
        return outcome

    def _ungraded(self, kind: str, reason: str) -> RewardOutcome:
        self._tally.ungraded(kind, reason)
        return RewardOutcome.ungraded(reason)

    async def _post(self, url: URL, payload: dict[str, list[str]]) -> str:
        """The body of a 2xx response; _TryAgain for a passing failure, _Refused for one of this sample; RewardError for
        a lasting one."""
        if self._session is None:
            # No limit of connections of its own: waiting for one would count as the server's time.
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=self._timeout)
        where = f"reward server {shown(url)}"
        try:
            async with self._session.post(url, json=payload) as response:
                body = await _read(response, where)
        except _RETRIED as error:
            timed_out = isinstance(error, TimeoutError)
            what = f"no answer within {self._timeout.total:g} s" if timed_out else _described(error)
            raise _TryAgain(f"{where}: {what}") from error
        except aiohttp.ClientError as error:  # what answers there does not speak HTTP, or redirects in circles
            raise RewardError(f"{where}: {_described(error)}; expected an HTTP server") from error
        if may_pass(response.status):
            raise _TryAgain(f"{where}: status {response.status}, {_start(body)}")
        if response.method != "POST":
            raise RewardError(f"{where}: redirects to {shown(response.url)}, which loses the POST; give that address")
        if not 200 <= response.status < 300:
            reason = f"{where}: status {response.status}, {_start(body)}"
            if response.status in _REFUSED and self._is_about_one_sample():
                raise _Refused(reason)
            raise RewardError(f"{reason}; expected status 200 and {EXPECTED}")
        return body

    def _is_about_one_sample(self) -> bool:
        """Whether a refusal may be: samples have been taken, or only few refused."""
        self._refused += 1
        return self._taken or self._refused < REFUSALS


class _TryAgain(Exception):
    """One try failed in a way that may pass."""


class _Refused(Exception):
    """The server takes no such sample."""


def parse_body(body: str, count: int, source: str, tally: Tally) -> list[RewardOutcome]:
    """The outcomes of `count` samples in a server's answer.

    Raises:
        RewardError: no JSON object of the expected form; names `source` and quotes the start of the body.
    """
    what = f"{source}: {_start(body)}"
    try:
        answer: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RewardError(f"{what}: not JSON; expected {EXPECTED}") from error
    return normalise(answer, count, what, tally)


async def _read(response: aiohttp.ClientResponse, where: str) -> str:
    body = bytearray()
    async for chunk in response.content.iter_chunked(1 << 16):
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise RewardError(f"{where}: the answer to one sample exceeds {MAX_BODY_BYTES} bytes")
    return _text(bytes(body), response.charset)


def _text(body: bytes, charset: str | None) -> str:
    """By the charset of the Content-Type, as UTF-8 where there is none or it is unknown; without a byte order mark."""
    try:
        text = body.decode(charset or "utf-8", errors="replace")
    except (LookupError, ValueError):
        text = body.decode("utf-8", errors="replace")
    return text.removeprefix("\ufeff")


def _start(body: str, limit: int = 120) -> str:
    text = " ".join(body[: 4 * limit].split())
    if not text:
        return "empty body"
    return f"body {text!r}" if len(text) <= limit else f"body starting {text[:limit]!r}"


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {without_login(str(error))}"


def _checked(url: str) -> URL:
    shown_url = repr(without_login(url))
    try:
        parsed = URL(url.strip())
    except ValueError as error:
        # Its words may quote a part of the password, and so would the chained error.
        reason = "no valid address" if "@" in url else str(error)
        raise RewardError(f"reward server {shown_url}: {reason}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise RewardError(f"reward server {shown_url}: an address starts with http:// or https:// and names a host")
    return parsed


def shown(url: URL) -> str:
    """The address for messages, without a user name and password."""
    return str(url.with_user(None)) if url.user or url.password else str(url)
