"""Sandboxes for the attacks: whole ones, and ones with a wall away, each started once."""

import pytest
import pytest_asyncio

from deepgym.exceptions import SandboxStarvedError
from deepgym.sandbox.base import Job, Sandbox, StepOutcome
from deepgym.sandbox.docker.sandbox import DockerSandbox
from deepgym.sandbox.local.sandbox import LocalSandbox
from deepgym.sandbox.local.unisolated import UnisolatedSandbox
from deepgym.sandbox.protocol import ALL_DEFENCES
from deepgym.sandbox.runner.defences import Defences
from tests.integration.deepgym.attacks import exhausting, kernel, outliving, reaching
from tests.integration.deepgym.attacks.attack import Attack, shared_job
from tests.integration.deepgym.attacks.host import SECRET_VARIABLE, Host

ALL = reaching.ALL + kernel.ALL + exhausting.ALL + outliving.ALL
_Key = tuple[str, Defences | None, int]


class Sandboxes:
    """Starts sandboxes as they are asked for and closes them all."""

    def __init__(self, engine_url: str) -> None:
        self._engine_url = engine_url
        self._started: dict[_Key, Sandbox] = {}

    async def get(self, backend: str, defences: Defences = ALL_DEFENCES, warm: int = 0) -> Sandbox:
        """A started sandbox of this backend; `warm` containers wait in it."""
        return await self._get((backend, defences, warm))

    async def bare(self) -> Sandbox:
        """No jail at all."""
        return await self._get(("none", None, 0))

    async def close(self) -> None:
        for sandbox in self._started.values():
            await sandbox.close()

    async def _get(self, key: _Key) -> Sandbox:
        if key not in self._started:
            sandbox = self._make(*key)
            await sandbox.start()
            self._started[key] = sandbox
        return self._started[key]

    def _make(self, backend: str, defences: Defences | None, warm: int) -> Sandbox:
        if defences is None:
            return UnisolatedSandbox(1)
        if backend == "local":
            return LocalSandbox(2, defences=defences)
        return DockerSandbox(slots=2, url=self._engine_url, defences=defences, warm=warm)


class Outcomes:
    """What became of the attacks. Those that can share a job are run together when the first of them is asked for."""

    def __init__(self, sandboxes: Sandboxes, facts: bytes) -> None:
        self._sandboxes = sandboxes
        self._facts = facts
        self._shared: dict[tuple[str, Defences], dict[str, StepOutcome]] = {}

    async def with_all_walls(self, attack: Attack, backend: str) -> tuple[StepOutcome, ...]:
        if attack.shares_a_job:
            return (await self._from_shared_job(attack, backend, ALL_DEFENCES),)
        return await self._run(await self._sandboxes.get(backend, warm=2), attack.jobs(self._facts))

    async def without_its_walls(self, attack: Attack, backend: str) -> tuple[StepOutcome, ...]:
        if attack.shares_a_job:
            return (await self._from_shared_job(attack, backend, attack.weak_defences),)
        bare = "jail" in attack.walls
        sandbox = await (self._sandboxes.bare() if bare else self._sandboxes.get(backend, attack.weak_defences))
        return await self._run(sandbox, attack.jobs_without_walls(self._facts))

    async def _run(self, sandbox: Sandbox, jobs: tuple[Job, ...]) -> tuple[StepOutcome, ...]:
        try:
            results = [await sandbox.run(job) for job in jobs]
        except SandboxStarvedError:
            return ()  # stopped, without a verdict: the machine was too busy to tell idling from waiting
        return tuple(outcome for result in results for outcome in result.outcomes)

    async def _from_shared_job(self, attack: Attack, backend: str, defences: Defences) -> StepOutcome:
        key = backend, defences
        if key not in self._shared:
            whole = defences == ALL_DEFENCES
            members = [each for each in ALL if each.shares_a_job and (whole or each.weak_defences == defences)]
            sandbox = await self._sandboxes.get(backend, defences, warm=2 if whole else 0)
            result = await sandbox.run(shared_job(members, self._facts))
            self._shared[key] = dict(zip((each.name for each in members), result.outcomes, strict=True))
        return self._shared[key][attack.name]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def outcomes(sandboxes, host):
    return Outcomes(sandboxes, host.facts)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def sandboxes(engine_url):
    made = Sandboxes(engine_url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET_VARIABLE, "not for answers")
        yield made
        await made.close()


@pytest.fixture(scope="session")
def host():
    with Host() as host:
        yield host
