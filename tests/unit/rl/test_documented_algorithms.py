"""docs/algorithms.md names code that exists, and quotes the line that implements each formula."""

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

from openrlhf.config.algo import CorrectionType, EstimatorName, KlEstimator
from openrlhf.config.model import LossAggregation, PolicyLossType
from openrlhf.config.schema import flags

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/algorithms.md").read_text(encoding="utf-8")
# [`module.symbol`](../path) | `line`, in a table, or with a colon
CODE = re.findall(r"\[`(openrlhf[\w.]+)`\]\(\.\./([\w/.]+)\)(?: \||:) `([^`]+)`", PAGE)


@pytest.mark.parametrize(("symbol", "path", "line"), CODE, ids=[symbol for symbol, *_ in CODE])
def test_the_named_code_holds_the_quoted_line(symbol, path, line):
    module, name = symbol.rsplit(".", 1)
    found = vars(import_module(module))[name]
    assert found.__module__ == module
    assert Path(inspect.getfile(found)) == ROOT / path
    assert line in [code.strip() for code in inspect.getsource(found).splitlines()]


def test_every_link_to_code_is_checked():
    assert len(CODE) == PAGE.count("](../openrlhf/") > 20


@pytest.mark.parametrize("choices", [EstimatorName, CorrectionType, KlEstimator, LossAggregation, PolicyLossType])
def test_every_algorithm_of_a_flag_is_there(choices):
    assert [name for name in get_args(choices) if f"`{name}`" not in PAGE] == []


def test_every_named_flag_exists():
    named = set(re.findall(r"`--([a-z_.]+)", PAGE)) | set(re.findall(r"^\| `--([a-z_.]+)`", PAGE, re.MULTILINE))
    assert named
    assert sorted(named - set(flags())) == []
