"""The documented snippet, served by uvicorn on the sandbox it names, to a client that sends what the page says."""

import json
import math
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from deepgym.registry import find_folder
from tests.integration.deepgym.serving import address_in

DOC = Path(__file__).resolve().parents[3] / "docs" / "deepgym.md"
PROMPT = "Fewest coins, please.\n"


def snippet() -> str:
    blocks = re.findall(r"^```python\n(.*?)^```", DOC.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if "create_openrlhf_router" in block]
    return found


@pytest.fixture(params=["docker", "local"])
def address(request, tmp_path):
    """uvicorn app:app in a folder of its own; with 'local' in the place of 'docker', the page's one other choice."""
    environment = dict(os.environ)
    if request.param == "docker":
        environment["DOCKER_HOST"] = request.getfixturevalue("engine_url")
    text = snippet()
    assert "mode='docker'" in text
    (tmp_path / "app.py").write_text(text.replace("mode='docker'", f"mode={request.param!r}"))
    command = [sys.executable, "-m", "uvicorn", "app:app", "--port", "0"]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
    try:
        yield f"{address_in(tmp_path / 'log', server)}/reward/score"
    finally:
        server.terminate()
        server.wait(60.0)


def post(address: str, body: object) -> tuple[int, dict]:
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=180.0) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.mark.timeout(600)
def test_the_snippet_serves_what_the_page_says(address):
    reference = find_folder("coin_change").reference()
    responses = [
        f"I think:\n```python\nraise SystemExit\n```\nNo:\n```python\n{reference}\n```<|im_end|>",
        "```python\ndef coin_change(coins, amount):\n    return -1\n```",
        "```python\nimport os\nos._exit(0)\n```",
    ]
    queries = [PROMPT + response for response in responses] + ["no prompt at all"]
    body = {"query": queries, "prompts": [PROMPT] * 4, "labels": [""] * 4}
    status, answer = post(address, body)
    assert status == 200
    assert answer["rewards"][:3] == [1.0, 0.0, 0.0]
    assert math.isnan(answer["rewards"][3])
    assert answer["error_types"] == [None, None, "solution_error", "prompt_mismatch"]
    assert answer["extra_logs"]["verdict_rate"] == 0.75

    assert post(address, {"outputs": responses[:1], "prompts": [PROMPT]})[1]["rewards"] == [1.0]
    assert post(address, {"outputs": responses[:1]})[0] == 422
    assert post(address, {"query": ["x" * 2_000_001], "prompts": ["x"]})[0] == 422
