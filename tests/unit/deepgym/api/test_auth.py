import base64

import httpx
import pytest

from deepgym.api.app import create_app
from tests.deepgym_fakes import FakeGym, environment, run_virtual

KEY = "schlüssel"


def get(path: str, headers: list[tuple[bytes, bytes]]) -> httpx.Response:
    async def main():
        app = create_app(FakeGym(), [environment()], infra_failure_score="nan", api_key=KEY)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gym") as client:
            return await client.get(path, headers=headers)

    return run_virtual(main())


def basic(text: str) -> bytes:
    return b"Basic " + base64.b64encode(text.encode())


@pytest.mark.parametrize(
    "header",
    [
        (b"authorization", f"Bearer {KEY}".encode()),
        (b"Authorization", f"bearer {KEY}".encode()),
        (b"x-api-key", KEY.encode()),
        (b"authorization", basic(f"anyone:{KEY}")),
        (b"authorization", basic(f":{KEY}")),
    ],
)
def test_who_has_the_key_passes(header):
    assert get("/metrics", [header]).status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        (b"x-other", KEY.encode()),
        (b"x-api-key", b""),
        (b"x-api-key", KEY.encode() + b"x"),
        (b"authorization", KEY.encode()),
        (b"authorization", b"Bearer"),
        (b"authorization", b"Bearer \xff"),
        (b"authorization", b"Basic ???"),
        (b"authorization", b"Basic \xff\xff"),
        (b"authorization", basic(KEY)),
        (b"authorization", basic(f"{KEY}:")),
        (b"authorization", b"Digest " + KEY.encode()),
    ],
)
def test_who_has_not_is_refused(header):
    response = get("/metrics", [header])
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Basic")
    assert KEY not in response.text


@pytest.mark.parametrize(
    "path", ["/", "/api/environments", "/metrics", "/openapi.json", "/nowhere", "/health/", "//health"]
)
def test_everything_but_health_needs_the_key(path):
    assert get(path, []).status_code == 401
    assert get("/health", []).status_code == 200
