"""An API key in front of a whole service."""

import base64
import binascii
import hmac

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

OPEN_PATHS = frozenset({"/health"})


class ApiKeyGate:
    """ASGI middleware: lets requests with the key pass, answers the others with 401 before their body is read.

    The key comes as `Authorization: Bearer KEY`, as `X-API-Key: KEY`, or as the password of HTTP Basic, which is what
    clients send for http://user:KEY@host/ (a trainer needs no option for it) and what browsers ask a person for.
    """

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in OPEN_PATHS or self._knows_key(scope):
            await self._app(scope, receive, send)
            return
        refusal = JSONResponse(
            {"detail": "an API key is needed: Authorization: Bearer KEY, X-API-Key: KEY, or http://user:KEY@host"},
            status_code=401,
            headers={"WWW-Authenticate": 'Basic realm="deepgym", charset="UTF-8"'},
        )
        await refusal(scope, receive, send)

    def _knows_key(self, scope: Scope) -> bool:
        given = [key for name, value in scope["headers"] if (key := _key_in(name.lower(), value)) is not None]
        return any(hmac.compare_digest(key, self._key) for key in given)


def _key_in(name: bytes, value: bytes) -> bytes | None:
    """The key that a header holds, if it is one that may."""
    if name == b"x-api-key":
        return value
    if name != b"authorization":
        return None
    scheme, _, credentials = value.partition(b" ")
    if scheme.lower() == b"bearer":
        return credentials.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(credentials, validate=True).partition(b":")[2]
        except binascii.Error:
            return None
    return None
