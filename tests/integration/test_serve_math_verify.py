"""Public cases g1 and g2 at the doors through which a training run grades: the served verifier, as a user starts it,
and the local one; asked by the trainer's own clients."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from openrlhf.config.env import EnvConfig
from openrlhf.env.math.pool import ComparePool
from openrlhf.env.task_rewards import TaskRewards
from openrlhf.env.verifiers.math import LocalMath, MathVerifier, ServedMath
from openrlhf.rollout.single_turn import single_turn_segment
from openrlhf.types import Prompt, Status, Trajectory
from tests.fakes import FakeTokenizer, completion

pytestmark = pytest.mark.timeout(600)

FAR = "and then " * 34  # about 300 characters
TWO_BOXES = r"First I get \boxed{5}. No, that is wrong; corrected: \boxed{7}."
SEVERAL = [
    (TWO_BOXES, "7", 1.0),
    (TWO_BOXES, "5", 0.0),
    (rf"First \boxed{{5}}. {FAR} corrected: \boxed{{7}}.", "7", 1.0),
    (rf"First \boxed{{5}}. {FAR} corrected: \boxed{{7}}.", "5", 0.0),
    (r"\boxed{\boxed{7}}", "7", 1.0),
    (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{\sqrt{2}}{2}", 1.0),
    (r"first \boxed{7}, then \boxed{7", "7", 0.0),  # the last box never closes: no answer
    (r"<think>\boxed{7}</think> done", "7", 0.0),  # a box in thinking is no answer
    (r"\fbox{7}", "7", 0.0),
    (r"\boxed{\{1,2,3\}}", r"\{3,2,1\}", 1.0),  # a set stands in one box
    (r"\boxed{1}\boxed{2}\boxed{3}", r"\{1,2,3\}", 0.0),
]
HOSTILE = [
    r"2^{2^{2^{2^{2^{2}}}}}",
    r"10^{10^{10}}",
    r"(10!)!",
    "(" * 500 + "1" + ")" * 500,
    "{" * 3000 + "1" + "}" * 3000,
    "x" * 1_000_000,
]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    command = [sys.executable, "-m", "openrlhf.cli.serve_math_verify", "--host", "127.0.0.1", "--port", "0"]
    command += ["--workers", "2", "--wall_seconds", "20"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith("math-verify at http://127.0.0.1:"), line + server.communicate()[1]
        yield int(line.rpartition(":")[2].partition("/")[0])
        server.send_signal(signal.SIGTERM)
        _, errors = server.communicate(timeout=60)
        assert (server.returncode, errors) == (0, "")
    finally:
        server.kill()


@pytest.fixture(params=["served", "local"])
def verifier(request, port) -> MathVerifier:
    if request.param == "local":
        return LocalMath(ComparePool(size=2))
    flags = {"math_port": port, "math_timeout": 120.0, "max_retries": 1}
    return ServedMath(EnvConfig.model_validate({"server": "http://127.0.0.1", "verifier": flags}))


async def verify_all(verifier: MathVerifier, pairs: list[tuple[str, str]]) -> list[float | None]:
    try:
        return await asyncio.gather(*(verifier.verify("Q", response, gold) for response, gold in pairs))
    finally:
        await verifier.close()


async def test_the_last_box_is_the_answer(verifier):
    found = await verify_all(verifier, [(response, gold) for response, gold, _ in SEVERAL])
    assert found == [expected for *_, expected in SEVERAL]


async def test_31_hostile_answers_and_a_good_one(verifier):
    responses = [rf"\boxed{{{HOSTILE[i % len(HOSTILE)]}}}" for i in range(31)]
    responses.insert(17, r"\boxed{\frac{14}{2}}")
    started = time.monotonic()
    found = await verify_all(verifier, [(response, "7") for response in responses])
    assert time.monotonic() - started < 320  # half of 32 times the wall limit, which one after the other would take
    assert found == [float(i == 17) for i in range(32)]


async def test_through_the_reward_of_the_task_math(port):
    flags = {"math_port": port, "math_timeout": 60.0}
    env = EnvConfig.model_validate({"server": "http://127.0.0.1", "verifier": flags})
    rewards = TaskRewards(env, FakeTokenizer())
    prompt = Prompt(0, "Q", '{"uuid": "a", "gold_ans": "\\\\frac13"}', task="math")
    text = r"so \boxed{\frac{1}{3}}"
    trajectory = Trajectory((single_turn_segment([5], completion(text)),), truncated=False)
    graded = await rewards.score(prompt, trajectory, text + "<eos>", 100)
    await rewards.close()
    assert (graded.reward, graded.score, graded.status) == (1.0, 1.0, Status.GRADED)
