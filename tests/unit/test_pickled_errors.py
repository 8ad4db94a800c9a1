"""Exceptions cross processes (Ray, process pools) by pickle, which calls the class with the exception's `args`."""

import ast
import copy
import importlib
import pickle
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Every public exception of both packages with an `__init__` of its own, and what makes one.
MADE_FROM = {
    "deepgym.integrations.body.BodyError": ([{"type": "json_invalid", "loc": ["body"], "msg": "no JSON"}], 408),
    "deepgym.integrations.verl.NoVerdictError": ("coin_change", "sandbox_error"),
    "openrlhf.cluster.errors.EngineLost": ("engine 1", "killed", 3),
    "openrlhf.cluster.errors.PeerDied": ("rank 1", "a step", "killed"),
    "openrlhf.cluster.errors.PeerTimeout": ("rank 1", "a step", 60.0),
    "openrlhf.config.errors.ConfigError": (["one", "two"],),
    "openrlhf.reward.threads.CallFailed": (ValueError("x"),),
}


def _with_an_init() -> set[str]:
    found = set()
    for path in (*ROOT.glob("deepgym/**/*.py"), *ROOT.glob("openrlhf/**/*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            bases = " ".join(map(ast.unparse, node.bases))
            init = any(isinstance(part, ast.FunctionDef) and part.name == "__init__" for part in node.body)
            if init and ("Error" in bases or "Exception" in bases):
                found.add(f"{module}.{node.name}")
    return found


def test_the_table_holds_all_of_them():
    assert _with_an_init() == set(MADE_FROM)


@pytest.mark.parametrize("name", MADE_FROM)
def test_an_error_survives_pickle(name):
    module, kind = name.rsplit(".", 1)
    error = vars(importlib.import_module(module))[kind](*MADE_FROM[name])
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert list(map(repr, again.args)) == list(map(repr, error.args))
        assert {key: repr(value) for key, value in vars(again).items()} == {
            key: repr(value) for key, value in vars(error).items()
        }
