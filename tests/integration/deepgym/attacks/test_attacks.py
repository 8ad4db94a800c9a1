"""Every attack against every backend: stopped by the whole sandbox, through where its own wall is away.

The second half proves the first: an attack that fails only because it is badly written would fail there too.
"""

import pytest

from tests.integration.deepgym.attacks.attack import Attack
from tests.integration.deepgym.attacks.conftest import ALL

BACKENDS = ("local", "docker")
one_loop = pytest.mark.asyncio(loop_scope="session")


def name_of(attack: Attack) -> str:
    return attack.name


def test_there_are_many_and_each_has_a_name_of_its_own():
    assert len({attack.name for attack in ALL}) == len(ALL) >= 40


@one_loop
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("attack", ALL, ids=name_of)
async def test_is_stopped(attack, backend, outcomes, host):
    what_happened = await outcomes.with_all_walls(attack, backend)
    assert all(outcome.status != "not_run" for outcome in what_happened[:1]), what_happened
    assert not attack.got_through(what_happened), what_happened
    assert host.unharmed


@one_loop
@pytest.mark.parametrize(
    ("attack", "backend"),
    [
        pytest.param(attack, backend, id=f"{attack.name}-{backend}")
        for attack in ALL
        for backend in sorted(attack.opens_on)
    ],
)
async def test_gets_through_without_its_wall(attack, backend, outcomes, host):
    what_happened = await outcomes.without_its_walls(attack, backend)
    assert attack.got_through(what_happened), what_happened
    host.clean_up()
