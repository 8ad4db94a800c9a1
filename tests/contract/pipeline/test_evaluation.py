"""A whole evaluation of a served endpoint: what is written, and what ends it."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from openrlhf.cli.evaluate import main
from tests.models import make_tiny_tokenizer

REWARD = """
def reward_func(queries, prompts, labels):
    if labels[0] == "down":
        return [float("nan")]
    return [float(labels[0] in query[len(prompt):]) for query, prompt in zip(queries, prompts)]
"""
AGENT = """
from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor

class AgentInstance(AgentInstanceBase):
    async def reset(self, states, **kwargs):
        return {"observation": states["observation"]}

    async def step(self, states, **kwargs):
        done = states["turn"] == 1
        return {"rewards": float(done), "scores": 1.0, "done": done, "environment_feedback": "again: "}

class AgentExecutor(MultiTurnAgentExecutor):
    def __init__(self):
        super().__init__(AgentInstance)
"""


class Server(ThreadingHTTPServer):
    """Says the last character of a prompt three times; every second answer is one character only."""

    asked = 0

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._say({"data": [{"id": "toy"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked += 1
        last = self.server.tokenizer.decode(body["prompt"])[-1]
        text = last * (3 if self.server.asked % 2 else 1)
        self._say({"choices": [{"text": text, "finish_reason": "stop"}]})

    def _say(self, answer: Any) -> None:
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None: ...


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    make_tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def address() -> Iterator[str]:
    server = Server(make_tiny_tokenizer())
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


@pytest.fixture
def flags(tmp_path, tokenizer_folder, address) -> list[str]:
    rows = [
        {"input": "one 1", "label": "111", "datasource": "digits"},
        {"input": "two 2", "label": "2", "datasource": "digits"},
        {"input": "odd x", "label": "down", "datasource": "others"},
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "reward.py").write_text(REWARD)
    return (
        f"--endpoint.url {address} --endpoint.tokenizer {tokenizer_folder} --eval.dataset {tmp_path}/rows.jsonl "
        f"--data.label_key label --data.max_len 64 --rollout.max_new_tokens 8 --eval.n_samples_per_prompt 2 "
        f"--eval.pass_at 1 2 --output_dir {tmp_path}/out"
    ).split()


def written(folder: Path) -> tuple[list[dict], dict]:
    lines = (folder / "responses.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines], json.loads((folder / "summary.json").read_text())


def test_single_responses(flags, tmp_path, capsys):
    assert main([*flags, "--reward.remote_url", f"{tmp_path}/reward.py"]) == 0
    rows, summary = written(tmp_path / "out")
    assert len(rows) == 6
    one = [row for row in rows if row["prompt"] == "one 1"]
    # Answers differ only in length, and only the long one holds "111"; which prompt gets which is a matter of order.
    assert all(row["score"] == float(row["response"] == "111") for row in one)
    assert all(row["score"] == 1.0 for row in rows if row["prompt"] == "two 2")
    assert [row["score"] for row in rows if row["prompt"] == "odd x"] == [None, None]
    assert summary["digits"]["prompts"] == 2
    assert summary["digits"]["pass@1"]["value"] >= 0.5
    assert summary["others"]["ungraded_rate"] == 1.0
    assert summary["all"]["samples"] == 6
    assert (tmp_path / "out/config.yaml").is_file()
    shown = capsys.readouterr().out
    assert "digits" in shown
    assert "3 of 3 prompts" in shown


def test_an_agent(flags, tmp_path):
    (tmp_path / "agent.py").write_text(AGENT)
    assert main([*flags, "--train.agent_func_path", f"{tmp_path}/agent.py"]) == 0
    rows, _ = written(tmp_path / "out")
    assert {row["turns"] for row in rows} == {2}
    assert {row["score"] for row in rows} == {1.0}
    assert all("again: " in row["response"] for row in rows)


def test_an_environment_for_every_prompt(flags, tmp_path):
    more = ["--eval.env_func", "math_tir_async", "--env.server", "http://127.0.0.1", "--env.code.port", "1"]
    assert main([*flags, *more, "--reward.remote_url", f"{tmp_path}/reward.py"]) == 0
    rows, _ = written(tmp_path / "out")
    assert {row["env_func"] for row in rows} == {"math_tir_async"}
    assert all(row["extra_logs"]["code_runs"] == 0 for row in rows if row["score"] is not None)


def test_a_folder_with_files_is_refused(flags, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/precious").write_text("")
    assert main([*flags, "--reward.remote_url", f"{tmp_path}/reward.py"]) == 1
    assert "holds files already; choose another, or add --overwrite" in capsys.readouterr().err
    assert main([*flags, "--reward.remote_url", f"{tmp_path}/reward.py", "--overwrite"]) == 0


def test_bad_inputs_are_told_together(flags, tmp_path, capsys):
    (tmp_path / "rows.jsonl").write_text("no json\n")
    (tmp_path / "reward.py").write_text("import no_such_module\n")
    assert main([*flags, "--reward.remote_url", f"{tmp_path}/reward.py"]) == 2
    assert len([line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]) == 2


def test_an_evaluation_without_any_verdict_fails(flags, tmp_path, capsys):
    (tmp_path / "reward.py").write_text("def reward_func(queries, prompts, labels):\n    return [float('nan')]\n")
    assert main([*flags, "--reward.remote_url", f"{tmp_path}/reward.py"]) == 1
    assert "no sample has a verdict" in capsys.readouterr().err


def test_nobody_grades(flags, capsys):
    assert main(flags) == 2
    assert "--reward.remote_url is missing" in capsys.readouterr().err
