import base64
import json

import httpx
import pytest

from deepgym.api.app import create_app
from deepgym.api.run_code import RunCodeRequest
from deepgym.exceptions import SandboxError
from deepgym.sandbox.base import MIB, Exec, JobResult, StepOutcome
from tests.deepgym_fakes import FakeGym, environment, run_virtual


def post(body, end=None, jobs=None) -> httpx.Response:
    """The answer to `body`, where every job ends as `end`; the jobs are collected in `jobs`."""

    def run(job):
        if jobs is not None:
            jobs.append(job)
        if isinstance(end, Exception):
            raise end
        return JobResult((end or StepOutcome("ok"),))

    async def main():
        app = create_app(FakeGym(job=run), [environment()], infra_failure_score="nan")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gym") as client:
            return await client.post("/run_code", content=body if isinstance(body, bytes) else json.dumps(body))

    return run_virtual(main())


def test_python_with_everything():
    jobs = []
    body = {
        "code": "print('é')",
        "language": "python",
        "compile_timeout": 10,
        "run_timeout": 2.5,
        "memory_limit_MB": 100,
        "stdin": "in",
        "files": {"data/x.bin": base64.b64encode(b"\x00\xff").decode()},
        "fetch_files": ["out.txt"],
    }
    outcome = StepOutcome(
        "ok", stdout=b"\xc3\xa9\n\xff", stderr=b"e", exit_code=0, files={"out.txt": b"\x00"}, wall_ms=250.0
    )
    response = post(body, outcome, jobs)
    assert response.status_code == 200
    assert response.json() == {
        "status": "Success",
        "message": "",
        "compile_result": None,
        "run_result": {
            "status": "Finished",
            "execution_time": 0.25,
            "return_code": 0,
            "stdout": "é\n\ufffd",
            "stderr": "e",
        },
        "executor_pod_name": None,
        "files": {"out.txt": "AA=="},
    }
    (job,) = jobs
    assert dict(job.files) == {"main.py": "print('é')".encode(), "data/x.bin": b"\x00\xff"}
    assert job.steps == (Exec(("python3", "main.py"), stdin=b"in", collect=("out.txt",)),)
    assert (job.limits.cpu_seconds, job.limits.wall_seconds, job.limits.memory_bytes) == (2.5, 2.5, 100 * MIB)


def test_bash_with_nothing_more():
    jobs = []
    assert post({"code": "ls", "language": "bash"}, jobs=jobs).json()["status"] == "Success"
    assert jobs[0].steps == (Exec(("bash", "main.sh")),)
    assert (jobs[0].limits.cpu_seconds, jobs[0].limits.memory_bytes) == (10.0, 512 * MIB)


@pytest.mark.parametrize(
    ("outcome", "status", "code", "message"),
    [
        (StepOutcome("error", exit_code=3, error="exit code 3"), "Finished", 3, "exit code 3"),
        (StepOutcome("signal", exit_code=-11, error="signal 11"), "Finished", -11, "signal 11"),
        (
            StepOutcome("timeout", error="CPU limit of 10 s reached"),
            "TimeLimitExceeded",
            None,
            "CPU limit of 10 s reached",
        ),
        (StepOutcome("memory", exit_code=-9, error="too much"), "Error", -9, "too much"),
        (StepOutcome("output_limit", error="too much"), "Error", None, "too much"),
    ],
)
def test_a_program_that_failed(outcome, status, code, message):
    answer = post({"code": "x", "language": "python"}, outcome).json()
    assert (answer["status"], answer["message"]) == ("Failed", message)
    assert (answer["run_result"]["status"], answer["run_result"]["return_code"]) == (status, code)


@pytest.mark.parametrize("error", [SandboxError("gone"), ZeroDivisionError("ours")])
def test_a_sandbox_that_failed_is_no_server_error(error):
    response = post({"code": "x", "language": "python"}, error)
    assert response.status_code == 200
    assert (response.json()["status"], response.json()["run_result"]) == ("SandboxError", None)


SOUND = {"code": "secret", "language": "python"}


def test_a_file_that_is_null_is_none():
    assert dict(RunCodeRequest(**SOUND, files={"a.txt": None, "b.txt": "eA=="}).job().files) == {
        "main.py": b"secret",
        "b.txt": b"x",  # eA== is x in base64
    }


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"code": "\\ud800", "language": "python"}',
        {"code": "x"},
        SOUND | {"language": "cobol"},
        SOUND | {"code": 1},
        SOUND | {"run_timeout": 0},
        SOUND | {"run_timeout": 121},
        b'{"code": "x", "language": "python", "run_timeout": NaN}',
        SOUND | {"memory_limit_MB": 0},
        SOUND | {"memory_limit_MB": 10**9},
        SOUND | {"files": {"../secret": ""}},
        SOUND | {"files": {"/etc/secret": ""}},
        SOUND | {"files": {"secret": "not base64"}},
        SOUND | {"files": {"secret": "é"}},
        SOUND | {"fetch_files": ["a/../secret"]},
        SOUND | {"fetch_files": ["x"] * 65},
    ],
)
def test_a_malformed_body_gets_422_and_nothing_back(body):
    response = post(body)
    assert response.status_code == 422
    assert response.json()["detail"]
    assert "secret" not in response.text
