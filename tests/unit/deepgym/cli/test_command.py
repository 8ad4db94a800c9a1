"""The command line on a sandbox that runs nothing: every Call answers with `value`."""

import io
import json
import os
import re
import socket
import subprocess
import sys

import pytest

from deepgym.cli import run as cli_run
from deepgym.cli import serve
from deepgym.cli.main import main
from deepgym.exceptions import SandboxError, SandboxUnavailableError
from deepgym.registry import list_environments
from deepgym.sandbox import auto
from deepgym.sandbox.base import StepOutcome
from tests.deepgym_fakes import FakeSandbox

ENV_TOML = """
title = "Add"
kind = "function"
entry = "add"
difficulty = "easy"
domain = "arithmetic"
"""
VERIFIER = """
from deepgym.models import Case
def cases(rng): return [Case("one", expected=3, args=(1, 2)), Case("two", expected=5, args=(2, 3))]
def judge(case, outcome): return outcome.value == case.expected
def examples(): return []
"""


@pytest.fixture
def made(monkeypatch):
    """What make_sandbox was asked for; its sandboxes behave as `behave["step"]` says."""
    asked = {"behave": lambda step: StepOutcome("ok", value=sum(step.args))}

    def make(mode, **options):
        if isinstance(asked["behave"], Exception):
            raise asked["behave"]
        sandbox = FakeSandbox(asked["behave"])
        asked.update(options, mode=mode, sandbox=sandbox)
        return sandbox

    monkeypatch.setattr(auto, "make_sandbox", make)
    return asked


@pytest.fixture
def add(tmp_path):
    folder = tmp_path / "add"
    folder.mkdir()
    for name, text in (("env.toml", ENV_TOML), ("verifier.py", VERIFIER), ("task.md", "Add."), ("reference.py", "ok")):
        (folder / name).write_text(text)
    return folder


def test_list_names_every_environment(capsys):
    assert main(["list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(names) == list(list_environments())
    assert "coin_change" in names


def test_list_knows_folders_and_prints_tasks(capsys, add):
    assert main(["list", "--folder", str(add), "--tasks"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^add +easy +function +python +arithmetic +Add$", out, re.MULTILINE)
    assert "    Add." in out


def test_rows_are_a_dataset_of_the_task(capsys, add, tmp_path):
    task = r"Add.\n\nAnswer with one fenced code block of Python that defines the function `add`.\n"
    line = '{"prompt": "' + task + '", "datasource": "add"}\n'
    assert main(["rows", str(add), "--count", "2"]) == 0
    assert capsys.readouterr().out == 2 * line
    output = tmp_path / "rows.jsonl"
    assert main(["rows", "add", "--folder", str(tmp_path), "--output", str(output)]) == 0
    assert output.read_text() == 64 * line
    assert capsys.readouterr().out == f"64 rows of add written to {output}\n"
    assert main(["rows", str(add), "--output", str(output)]) == 2  # never written over
    assert capsys.readouterr().err == f"error: the rows cannot be written to {output}: File exists\n"
    assert main(["rows", str(add), "--count", "0"]) == 2


def test_rows_are_written_one_by_one(monkeypatch, capsys):
    class Pipe(io.StringIO):
        """One whose reader leaves after three rows."""

        def write(self, text):
            if self.getvalue().count("\n") == 3:
                raise BrokenPipeError(32, "Broken pipe")
            return super().write(text)

    monkeypatch.setattr("sys.stdout", pipe := Pipe())
    assert main(["rows", "coin_change", "--count", "1000000000000"]) == 2
    assert pipe.getvalue().count("\n") == 3
    assert capsys.readouterr().err == "error: the rows cannot be written to stdout: Broken pipe\n"


def test_run_prints_the_verdict_case_by_case(capsys, made, add, tmp_path):
    (tmp_path / "answer.md").write_text("Here:\n```python\ncode\n```\n")
    assert main(["run", str(add), str(tmp_path / "answer.md")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "one  passed  1.000",
        "two  passed  1.000",
        "passed, score 1.000",
        "4 ms, 2 ms of CPU, 1.0 MiB at most",
        "a note",
    ]
    (job,) = made["sandbox"].jobs
    assert b"code" in b"".join(job.files.values())
    assert b"Here" not in b"".join(job.files.values())


def test_answers_do_not_see_the_users_environments(made, add, tmp_path):
    (tmp_path / "answer.py").write_text("code")
    main(
        ["run", str(add), str(tmp_path / "answer.py"), "--folder", str(tmp_path), "--parallel", "3", "--mode", "local"]
    )
    assert set(made["hidden"]) == {add, tmp_path}
    assert (made["mode"], made["slots"]) == ("local", 3)


def test_an_answer_that_fails(capsys, monkeypatch, made, add):
    made["behave"] = lambda step: StepOutcome("ok", value=3)
    monkeypatch.setattr("sys.stdin", io.StringIO("code"))
    assert main(["run", str(add), "-"]) == 1
    out = capsys.readouterr().out
    assert "one  passed" in out
    assert "two  failed" in out


def run_process(*words, locale="C.UTF-8", stdin=b"", stdout=subprocess.PIPE):
    """The command in a process of its own, with real streams; stderr and what it printed are bytes."""
    environ = os.environ | {"LC_ALL": locale, "PYTHONIOENCODING": "ascii" if locale == "C" else ""}
    command = [sys.executable, "-m", "deepgym", *words]
    return subprocess.run(command, input=stdin, stdout=stdout, stderr=subprocess.PIPE, env=environ, check=False)


@pytest.mark.parametrize("source", ["-", "file"])
def test_an_answer_that_is_not_utf_8_is_refused(add, tmp_path, source):
    (tmp_path / "answer").write_bytes(b"\xff")
    name = source if source == "-" else str(tmp_path / "answer")
    done = run_process("run", str(add), name, stdin=b"\xff")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert b"cannot be read: 'utf-8' codec can't decode byte 0xff" in done.stderr


def test_a_line_of_stdin_may_have_been_read_before():
    script = "import sys; sys.stdin.readline(); from deepgym.cli.main import main; sys.exit(main(['list']))"
    done = subprocess.run([sys.executable, "-c", script], input=b"a\nb\n", capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_answer_on_stdin_is_read_as_a_file_is(monkeypatch, made, add):
    seen = []
    made["behave"] = lambda step: seen.append(step) or StepOutcome("ok", value=3)
    monkeypatch.setattr(cli_run, "extract_code", lambda text: seen.append(text) or text)
    stdin = io.TextIOWrapper(io.BytesIO(b"x = '\xc3\xa9'\r\ny"), encoding="ascii")
    monkeypatch.setattr("sys.stdin", stdin)
    main(["run", str(add), "-"])
    assert seen[0] == "x = '\u00e9'\ny"


def test_a_terminal_without_unicode_gets_escapes_and_whole_rows(add):
    (add / "task.md").write_text("Add \u00e9.")
    listed = run_process("list", "--folder", str(add), "--tasks", locale="C")
    assert (listed.returncode, listed.stderr) == (0, b"")
    assert b"Add \\xe9." in listed.stdout
    row = run_process("rows", str(add), "--count", "1", locale="C")
    assert json.loads(row.stdout)["prompt"].startswith("Add \u00e9.")


def test_output_that_cannot_be_written_is_one_line():
    with open("/dev/full", "wb") as full:
        done = run_process("list", stdout=full)
    assert (done.returncode, done.stderr) == (2, b"error: the output cannot be written: No space left on device\n")


def test_json(capsys, made, add, tmp_path):
    (tmp_path / "answer.py").write_text("code")
    assert main(["run", str(add), str(tmp_path / "answer.py"), "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert (verdict["score"], verdict["cases"][1]["name"]) == (1.0, "two")


def test_no_verdict_is_neither_passed_nor_failed(capsys, made, add, tmp_path):
    made["behave"] = lambda step: SandboxError("the engine\nis gone")
    (tmp_path / "answer.py").write_text("code")
    assert main(["run", str(add), str(tmp_path / "answer.py")]) == 3
    assert capsys.readouterr().err == "no verdict: the engine is gone\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "nothing", "-"], "no environment 'nothing'"),
        (["run", "coin_change", "/no/such/file"], "the answer '/no/such/file' cannot be read"),
        (["run", "coin_change", "-", "--parallel", "0"], "--parallel 0"),
        (["list", "--folder", "/no/such/folder"], "/no/such/folder: no such folder"),
        (["bench", "--in_flight", "0"], "--in_flight"),
        (["bench", "--seconds", "nan"], "--seconds"),
        (["serve", "nothing", "--infra_failure_score", "nan"], "no environment 'nothing'"),
        (["serve", "--infra_failure_score", "nan", "--host", "0.0.0.0"], "give --api_key_file or set DEEPGYM_API_KEY"),
        (["serve", "--infra_failure_score", "nan", "--api_key_file", "/no/key"], "/no/key cannot be read"),
        (["serve", "coin_change", "--infra_failure_score", "nan", "--port", "99999"], "--port 99999: ports go from 0"),
        (["serve", "coin_change", "--infra_failure_score", "nan", "--port", "-1"], "--port -1: ports go from 0"),
        (["serve", "coin_change", "coin_change", "--infra_failure_score", "nan"], "each once"),
        (["serve", "coin_change", "--infra_failure_score", "nan", "--max_parallel", "0"], "max_parallel is 0"),
    ],
)
def test_what_the_user_can_mend_is_one_line(capsys, monkeypatch, made, words, message):
    monkeypatch.delenv(serve.KEY_VARIABLE, raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO("code"))
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error


def test_a_machine_without_a_sandbox_is_one_line(capsys, made, add, tmp_path):
    made["behave"] = SandboxUnavailableError("no bubblewrap")
    (tmp_path / "answer.py").write_text("code")
    assert main(["run", str(add), str(tmp_path / "answer.py")]) == 2
    assert capsys.readouterr().err == "error: no bubblewrap\n"


def test_serve_needs_the_operators_choice(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["serve", "coin_change"])
    assert stopped.value.code == 2
    assert "infra_failure_score" in capsys.readouterr().err


@pytest.fixture
def served(monkeypatch, made):
    """The configuration and the addresses of each uvicorn server, which is not run."""
    import uvicorn

    calls = []

    def run(server, sockets):
        calls.append((server.config, [listening.getsockname()[:2] for listening in sockets]))

    monkeypatch.setattr(uvicorn.Server, "run", run)
    monkeypatch.delenv(serve.KEY_VARIABLE, raising=False)
    return calls


def gated(app) -> bool:
    return any(each.cls.__name__ == "ApiKeyGate" for each in app.user_middleware)


def test_serve_on_this_machine(served, caplog):
    caplog.set_level("INFO")
    assert main(["serve", "coin_change", "--infra_failure_score", "zero", "--port", "0"]) == 0
    ((config, ((host, port),)),) = served
    assert host == "127.0.0.1"
    assert f"Uvicorn running on http://127.0.0.1:{port} " in caplog.text
    assert config.timeout_keep_alive > 60  # nginx's pool keeps a connection for so many seconds
    assert not gated(config.app)
    assert "/reward/score" in config.app.openapi()["paths"]


def test_serve_listens_at_every_address_of_a_name_at_one_port(served, monkeypatch):
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{n}", 0)) for n in (1, 2, 2)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert main(["serve", "coin_change", "--infra_failure_score", "zero", "--host", "localhost", "--port", "0"]) == 0
    ((_, ((one, port), (other, same))),) = served
    assert (one, other) == ("127.0.0.1", "127.0.0.2")
    assert port == same


@pytest.mark.parametrize("host", ["127.0.0.1", "no.such.host.invalid", "a" * 100])
def test_serve_where_it_cannot_listen_is_one_line(served, capsys, host):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = ["--host", host, "--port", str(taken.getsockname()[1]), "--no_api_key"]
        assert main(["serve", "coin_change", "--infra_failure_score", "nan", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: --host {host} --port ")
    assert error.count("\n") == 1
    assert not served


@pytest.mark.parametrize("source", ["file", "environment"])
def test_serve_to_others_with_a_key(served, monkeypatch, tmp_path, source):
    words = ["serve", "--infra_failure_score", "nan", "--host", "0.0.0.0", "--port", "0"]
    if source == "file":
        (tmp_path / "key").write_text("secret\n")
        words += ["--api_key_file", str(tmp_path / "key")]
    else:
        monkeypatch.setenv(serve.KEY_VARIABLE, "secret")
    assert main(words) == 0
    ((config, _),) = served
    assert gated(config.app)


@pytest.mark.parametrize("key", ["schl\u00fcssel", "a\tb"])
def test_serve_refuses_a_key_that_clients_send_in_different_ways(capsys, monkeypatch, key):
    monkeypatch.setenv(serve.KEY_VARIABLE, key)
    assert main(["serve", "--infra_failure_score", "nan"]) == 2
    assert (
        capsys.readouterr().err == "error: the API key of DEEPGYM_API_KEY has to be printable ASCII characters only\n"
    )


def test_serve_to_everybody_if_told_so(served):
    assert main(["serve", "--infra_failure_score", "nan", "--host", "0.0.0.0", "--port", "0", "--no_api_key"]) == 0
    assert not gated(served[0][0].app)


def test_the_help_quotes_the_words_that_do_without_walls(capsys):
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    said = " ".join(re.sub("[│╭╰─]", " ", capsys.readouterr().out).split())
    assert auto.UNISOLATED_WORDS in said


def test_new_and_check(capsys, made, tmp_path):
    """A sandbox whose answers know only what `total` is: stubs cannot be told from it, so check complains."""
    assert main(["new", str(tmp_path / "sums")]) == 0
    assert f"deepgym check {tmp_path}/sums" in capsys.readouterr().out
    made["behave"] = lambda step: StepOutcome("ok", value=sum(step.args[0]))
    assert main(["check", str(tmp_path / "sums"), "--scores"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "sums: NOT sound"
    assert any("wrong/off_by_one earns 1.000" in line for line in out)
    assert "  1.000  reference, run 3" in out


def test_check_without_a_sandbox_has_no_verdict(capsys, made, tmp_path):
    main(["new", str(tmp_path / "sums")])
    made["behave"] = lambda step: SandboxError("gone")
    assert main(["check", str(tmp_path / "sums")]) == 3
    assert "sums: no verdict: gone" in capsys.readouterr().out


def test_new_refuses_a_name(capsys):
    assert main(["new", "My-Env"]) == 2
    assert "'My-Env'" in capsys.readouterr().err
