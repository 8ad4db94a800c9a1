"""docs/reference/cli.md says what the schema says."""

from pathlib import Path

from openrlhf.config.legacy import RENAMED
from openrlhf.config.parse import PPOCommand
from openrlhf.config.reference import page, type_of
from openrlhf.config.schema import flags

ROOT = Path(__file__).parents[3]


def test_the_committed_page_is_current():
    committed = (ROOT / "docs/reference/cli.md").read_text()
    assert committed == page(), "run python -m openrlhf.config.reference --write"


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
