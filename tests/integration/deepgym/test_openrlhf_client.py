"""openrlhf's own reward client on the router: what it reads, and a training run that drops what has no verdict."""

import asyncio
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np
import pytest
from fastapi import FastAPI

from deepgym.exceptions import SandboxError, VerifierError
from deepgym.integrations.openrlhf import create_openrlhf_router
from openrlhf.reward.http import HttpReward
from openrlhf.rl.filtering import apply_dynamic_filter
from openrlhf.types import Prompt, Rollout, RolloutGroup, Segment, Status
from tests.deepgym_fakes import FakeGym, Run, environment, served, served_in_thread, verdict
from tests.integration.training import rows, train, write_inputs
from tests.models import make_tiny_llama

PROMPT = "add: "


def router_app(gym, score: str = "nan") -> FastAPI:
    app = FastAPI()
    app.include_router(create_openrlhf_router(environment(), gym, infra_failure_score=score))
    return app


GYM = {
    "right": [Run(verdict(1.0))],
    "half": [Run(verdict(0.5))],
    "wrong": [Run(verdict(0.0))],
    "flaky": [Run(SandboxError("gone")), Run(verdict(1.0))],
    "broken": [Run(SandboxError("gone"))],
    "unjudged": [Run(VerifierError("bad cases"))],
}


async def scored(score: str, responses) -> list:
    async with served(router_app(FakeGym(GYM), score)) as address:
        client = HttpReward([f"{address}/reward/score"], pause_s=0.1)
        try:
            queries = [(PROMPT if response else "no prompt") + response for response in responses]
            return await asyncio.gather(*(client.score(query, Prompt("0", PROMPT), "") for query in queries))
        finally:
            await client.close()


async def test_the_client_reads_verdicts_and_their_absence():
    outcomes = await scored("nan", ["right", "half", "flaky", "broken", "unjudged", ""])
    assert [outcome.status for outcome in outcomes] == [Status.GRADED] * 3 + [Status.UNGRADED] * 3
    assert [outcome.reward for outcome in outcomes[:3]] == [1.0, 0.5, 1.0]
    assert all(math.isnan(outcome.reward) for outcome in outcomes[3:])
    assert outcomes[1].extra_logs == {"verdict_rate": 1.0, "pass_rate": 0.0, "case_pass_rate": 0.5}
    assert outcomes[3].extra_logs == {"verdict_rate": 0.0}


async def test_zero_is_trained_on():
    outcomes = await scored("zero", ["broken", ""])
    assert [(outcome.status, outcome.reward) for outcome in outcomes] == [(Status.GRADED, 0.0)] * 2


async def test_the_dynamic_filter_drops_exactly_the_groups_without_a_verdict():
    groups = {
        "kept": ["right", "wrong"],
        "one broken": ["right", "broken", "wrong"],
        "regraded": ["flaky", "wrong"],
        "no prompt": ["", "right", "wrong"],
        "all right": ["right", "right"],
        "partial": ["half", "half"],
    }
    outcomes = iter(await scored("nan", [response for group in groups.values() for response in group]))
    built = [group_of(name, [next(outcomes) for _ in responses]) for name, responses in groups.items()]
    kept = apply_dynamic_filter(built, (0.0, 1.0), grouped=True).kept
    assert [group.group_id for group in kept] == ["kept", "regraded", "partial"]


def group_of(name: str, outcomes) -> RolloutGroup:
    ids = np.arange(2)
    segment = Segment(ids, ids > 0, ids > 0, np.zeros(2, np.float32), np.zeros(2, np.int32))
    rollouts = (
        Rollout(name, f"{name}/{i}", Prompt("0", PROMPT), (segment,), outcome, truncated=False)
        for i, outcome in enumerate(outcomes)
    )
    return RolloutGroup(name, tuple(rollouts))


label: ContextVar[str] = ContextVar("label")


@dataclass
class LabelGym:
    """Judges by the answer's letters; has no verdict on the third answer to label 1, nor at its regrade."""

    calls: dict[str, int] = field(default_factory=dict)
    ungraded: set[str] = field(default_factory=set)

    async def arun(self, env, answer, *, on_start=lambda: None):
        on_start()
        own = label.get()
        self.calls[own] = self.calls.get(own, 0) + 1
        if own == "1" and (answer in self.ungraded or self.calls[own] == 3):
            self.ungraded.add(answer)
            raise SandboxError("gone")
        return verdict((1 + sum(map(ord, answer)) % 8) / 10)  # 0.1 to 0.8: no group is all right or all wrong


@contextmanager
def label_server(gym) -> Iterator[str]:
    """The router on a port, its requests' labels in `label`, which the grading of a request inherits."""
    app = router_app(gym)

    async def labelled(scope, receive, send):
        if scope["type"] == "http":
            body = b""
            while True:
                message = await receive()
                body += message["body"]
                if not message.get("more_body"):
                    break
            label.set(json.loads(body)["labels"][0])
            messages = iter([{"type": "http.request", "body": body, "more_body": False}])

            async def replay():
                return next(messages, None) or await receive()

            await app(scope, replay, send)

    with served_in_thread(labelled) as address:
        yield f"{address}/reward/score"


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_training_drops_exactly_the_groups_with_an_ungraded_sample(tmp_path):
    """6 prompts, one epoch: all are trained on but the one with an ungraded sample, for which there is no other."""
    inputs = write_inputs(tmp_path / "inputs", make_tiny_llama(tmp_path / "model"), num_prompts=6)
    gym = LabelGym()
    with label_server(gym) as address:
        flags = inputs.flags(
            tmp_path / "run",
            reward__remote_url=address,
            algo__dynamic_filtering_enable=True,
            rollout__batch_size=2,
            train__batch_size=8,
        )
        run = train(flags, tmp_path / "log")
    assert run.process.returncode == 0, run.stderr[-4000:]
    assert gym.calls == dict.fromkeys("02345", 4) | {"1": 5}  # the third answer to label 1 was graded twice
    assert sum(row["rollout/num_samples"] for row in rows(tmp_path / "run")) == 5 * 4
