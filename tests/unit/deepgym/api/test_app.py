"""The service's routes, its page's API and its metrics."""

import re

import httpx
import pytest

from deepgym.api.app import create_app
from deepgym.exceptions import SandboxError, VerifierError
from deepgym.models import CaseOutcome, ErrorType
from tests.deepgym_fakes import FakeGym, Run, environment, run_virtual, verdict

SAMPLE = {"query": ["pa"], "prompts": ["p"]}


def exchange(requests, gym=None, environments=("add",)) -> list[httpx.Response]:
    """The answers to (method, path, json) on one service."""

    async def main():
        envs = [environment(name, tags=("sum",)) for name in environments]
        app = create_app(gym or FakeGym(), envs, infra_failure_score="nan")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gym") as client:
            return [await client.request(method, path, json=body) for method, path, body in requests]

    return run_virtual(main())


def test_one_environment_has_the_short_address_too():
    paths = ["/reward/score", "/environments/add/reward/score"]
    assert [response.json()["rewards"] for response in exchange([("POST", path, SAMPLE) for path in paths])] == [
        [1.0]
    ] * 2


def test_several_environments_have_one_address_each():
    paths = [
        "/environments/a/reward/score",
        "/environments/b/reward/score",
        "/environments/c/reward/score",
        "/reward/score",
    ]
    responses = exchange([("POST", path, SAMPLE) for path in paths], environments=("a", "b"))
    assert [response.status_code for response in responses] == [200, 200, 404, 404]


@pytest.mark.parametrize("names", [(), ("a", "a")])
def test_environments_are_given_once(names):
    with pytest.raises(ValueError, match="at least one environment, each once"):
        create_app(FakeGym(), [environment(name) for name in names], infra_failure_score="nan")


def test_health():
    (response,) = exchange([("GET", "/health", None)])
    assert response.json() == {"status": "ok", "sandbox": "fake", "isolated": True, "environments": ["add"]}


def test_the_page_and_its_files_come_from_here():
    page, script, style = exchange([("GET", path, None) for path in ("/", "/page.js", "/page.css")])
    assert page.headers["content-type"].startswith("text/html")
    assert script.headers["content-type"].split(";")[0] in ("text/javascript", "application/javascript")
    assert style.headers["content-type"].startswith("text/css")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert not re.search(r"https?://", page.text + script.text + style.text)


def test_environments_are_listed_without_what_the_judge_holds():
    (response,) = exchange([("GET", "/api/environments", None)])
    assert response.json() == [
        {
            "name": "add",
            "title": "Add",
            "task": "Add two numbers.",
            "kind": "function",
            "language": "python",
            "difficulty": "easy",
            "domain": "arithmetic",
            "tags": ["sum"],
        }
    ]


def test_a_verdict_case_by_case():
    cases = (CaseOutcome("one", True, 1.0, cpu_ms=2.0), CaseOutcome("two", False, 0.0, detail="wrong value"))
    gym = FakeGym({"a\n": [Run(verdict(0.5, cases=cases, wall_ms=3.0, notes=("said",)))]})
    (response,) = exchange([("POST", "/api/run", {"environment": "add", "answer": "```\na\n```"})], gym)
    answer = response.json()
    assert (answer["has_verdict"], answer["score"], answer["passed"]) == (True, 0.5, False)
    assert (answer["wall_ms"], answer["notes"]) == (3.0, ["said"])
    assert [(case["name"], case["passed"], case["detail"]) for case in answer["cases"]] == [
        ("one", True, ""),
        ("two", False, "wrong value"),
    ]


def test_no_verdict_is_no_score():
    gym = FakeGym({"a": [Run(VerifierError("bad cases"))]})
    (response,) = exchange([("POST", "/api/run", {"environment": "add", "answer": "a"})], gym)
    assert response.json() == {"has_verdict": False, "score": None, "error_type": "verifier_error", "cases": []}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"environment": "secret", "answer": "a"}, 404),
        ({"environment": "add"}, 422),
        ({"environment": "add", "answer": None}, 422),
        ([], 422),
    ],
)
def test_a_wrong_request_of_the_page(body, status):
    (response,) = exchange([("POST", "/api/run", body)])
    assert response.status_code == status
    assert "secret" not in response.text


def test_metrics():
    slow = Run(verdict(1.0), seconds=1000.0)
    crash = Run(verdict(0.0, error_type=ErrorType.SOLUTION_ERROR, wall_ms=40.0))
    gym = FakeGym(
        {"slow": [slow], "crash": [crash], "half": [Run(verdict(0.5))], "broken": [Run(SandboxError("gone"))]}
    )
    body = {"outputs": ["slow", "crash", "half", "broken"], "prompts": [""] * 4}
    *_, metrics = exchange(
        [
            ("POST", "/reward/score", body),
            ("POST", "/reward/score", []),
            ("GET", "/nowhere", None),
            ("GET", "/elsewhere", None),
            ("GET", "/metrics", None),
        ],
        gym,
    )
    lines = metrics.text.splitlines()
    for line in (
        'deepgym_samples_total{environment="add",error_type="deadline_exceeded",outcome="late"} 1.0',
        'deepgym_samples_total{environment="add",error_type="solution_error",outcome="judged"} 1.0',
        'deepgym_samples_total{environment="add",error_type="none",outcome="judged"} 1.0',
        'deepgym_samples_total{environment="add",error_type="sandbox_error",outcome="masked"} 1.0',
        'deepgym_score_total{environment="add"} 0.5',
        'deepgym_run_wall_seconds_bucket{environment="add",le="0.025"} 1.0',
        'deepgym_run_wall_seconds_bucket{environment="add",le="0.05"} 2.0',
        'deepgym_http_requests_total{path="/reward/score",status="200"} 1.0',
        'deepgym_http_requests_total{path="/reward/score",status="422"} 1.0',
        'deepgym_http_requests_total{path="none",status="404"} 2.0',
        "deepgym_slots 32.0",
        "deepgym_slots_in_use 0.0",
        "deepgym_slots_waiting 0.0",
    ):
        assert line in lines
    assert any(line.startswith("process_resident_memory_bytes ") for line in lines)
