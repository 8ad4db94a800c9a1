"""docs/reference/ says what the schema says."""

from pathlib import Path

import pytest

from openrlhf.config.legacy import RENAMED
from openrlhf.config.parse import PPOCommand
from openrlhf.config.reference import OTHERS, other_page, page, pages, type_of
from openrlhf.config.schema import flags

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", list(pages()))
def test_the_committed_page_is_current(name):
    committed = (ROOT / "docs/reference" / name).read_text()
    assert committed == pages()[name], "run python -m openrlhf.config.reference --write"


def test_every_command_has_a_page():
    commands = {path.stem for path in (ROOT / "openrlhf/cli").glob("*.py") if "__main__" in path.read_text()}
    assert commands == {"train_ppo_ray", *OTHERS}


@pytest.mark.parametrize("program", list(OTHERS))
def test_every_flag_of_another_command_is_on_its_page(program):
    text = other_page(program)
    assert [path for path in flags(OTHERS[program]) if f"| `--{path}` |" not in text and path != "runs"] == []


def test_every_flag_and_old_name_is_on_it():
    text = page()
    assert [path for path in flags(PPOCommand) if f"| `--{path}` |" not in text] == []
    assert [old for old in RENAMED if f"| `--{old}` |" not in text] == []


def test_planned_flags_are_marked():
    (line,) = [line for line in page().splitlines() if line.startswith("| `--use_ms` |")]
    assert line.split(" | ")[1:3] == ["bool", "`False`"]
    assert "*planned (ModelScope)*" in line


def test_types_are_readable():
    shown = {path: type_of(flags()[path]) for path in ("actor.adam.betas", "ds.lora.target_modules", "vllm.dtype")}
    assert shown == {
        "actor.adam.betas": "float float",
        "ds.lora.target_modules": "str ...",
        "vllm.dtype": "{bf16, fp16, fp32} or None",
    }
