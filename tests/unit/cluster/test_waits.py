"""Every wait for another process or thread has a limit: read off the source of the rooms that wait."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3] / "openrlhf"
WAITING = sorted(path for room in ("cluster", "pipeline", "env") for path in (ROOT / room).rglob("*.py"))
# Calls that block until somebody else has done something, and the argument that bounds them.
BLOCKING = {"ray.get": "timeout", "ray.wait": "timeout", ".join": "timeout", ".wait": None, ".result": "timeout"}


def unbounded(source: str) -> Iterator[str]:
    """`line: call` of every wait without a limit. `.wait` and `PlacementGroup.wait` take it as their only argument."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = node.func.value
        whole = f"{owner.id}.{node.func.attr}" if isinstance(owner, ast.Name) else ""
        name = whole if whole in BLOCKING else f".{node.func.attr}"
        if name not in BLOCKING or (name == ".join" and isinstance(owner, ast.Constant)):
            continue
        keyword = BLOCKING[name]
        bounded = bool(node.args) if keyword is None else any(k.arg == keyword for k in node.keywords)
        if not bounded:
            yield f"{node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("path", WAITING, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_wait_has_a_limit(path):
    assert list(unbounded(path.read_text(encoding="utf-8"))) == []


def test_a_wait_without_a_limit_is_seen():
    faulty = "ray.get(ref)\nray.wait([a], num_returns=1)\nthread.join()\nevent.wait()\n"
    assert [line.split(":")[0] for line in unbounded(faulty)] == ["1", "2", "3", "4"]
    sound = "ray.get(ref, timeout=1)\nray.wait([a], timeout=t)\nthread.join(timeout=9)\nevent.wait(1)\n', '.join(x)\n"
    assert list(unbounded(sound)) == []
