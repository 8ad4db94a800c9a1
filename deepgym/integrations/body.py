"""Request bodies, read with a cap and refused without quoting them.

A client learns which field is wrong and why; what it sent never comes back, so an error stays small whatever the body
holds, and always encodes.
"""

import asyncio
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

Body = TypeVar("Body", bound=BaseModel)

MOST_PROBLEMS = 10  # reported of one body


class BodyError(Exception):
    """The body cannot be used; `problems` says where and why, in FastAPI's form, without the values.

    `status` 422: it will not get better by sending it again. 408: it may.
    """

    def __init__(self, problems: list[dict[str, Any]], status: int = 422) -> None:
        super().__init__(problems, status)
        self.problems = problems
        self.status = status

    def __str__(self) -> str:
        return f"{len(self.problems)} problems in the body"

    def response(self) -> JSONResponse:
        return JSONResponse({"detail": self.problems}, status_code=self.status)


async def read_body(request: Request, form: type[Body], max_bytes: int, timeout_s: float) -> Body:
    """The JSON body as a `form`, whatever content type the client names.

    Raises:
        BodyError: more than `max_bytes`, not complete within `timeout_s`, not JSON, or another form.
    """
    try:
        async with asyncio.timeout(timeout_s):
            raw = await _read(request, max_bytes)
    except TimeoutError:
        raise _refused("body_timeout", f"the body was not complete after {timeout_s:.0f} s", 408) from None
    except ClientDisconnect:
        raise _refused("body_incomplete", "the client left before the body was complete") from None
    try:
        return form.model_validate_json(raw)
    except ValidationError as error:
        raise BodyError(_problems(error, form)) from None


async def _read(request: Request, max_bytes: int) -> bytearray:
    """Up to `max_bytes`. The rest of a longer body is read and thrown away, so that the client gets its answer."""
    raw = bytearray()
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_bytes:
            raw.clear()
        else:
            raw += chunk
    if size > max_bytes:
        raise _refused("body_too_large", f"the body has {size} bytes; at most {max_bytes} are read")
    return raw


def _refused(kind: str, message: str, status: int = 422) -> BodyError:
    return BodyError([{"type": kind, "loc": ["body"], "msg": message}], status)


def _problems(error: ValidationError, form: type[BaseModel]) -> list[dict[str, Any]]:
    """The first problems, without the input; keys that the client chose are not repeated either."""

    def place(path: tuple[int | str, ...]) -> list[int | str]:
        return ["body", *(part if isinstance(part, int) or part in form.model_fields else "*" for part in path)]

    found = error.errors(include_url=False, include_context=False, include_input=False)[:MOST_PROBLEMS]
    return [{"type": one["type"], "loc": place(one["loc"]), "msg": one["msg"]} for one in found]
