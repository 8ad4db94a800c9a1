"""Checkpoints of two gloo ranks: each rank's random generators, a disk that is full for one of them; exports (e2)."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.integration.ranks import run
from tests.integration.save_worker import STAGES
from tests.models import CHAT_TEMPLATE, make_tiny_llama

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    make_tiny_llama(folder / "tied")
    make_tiny_llama(folder / "untied", tied=False)
    return folder


def test_a_full_disk_of_one_rank_holds_up_nobody_and_every_rank_has_its_own_chance(models, tmp_path):
    run("refusals", 2, models, tmp_path, worker="save_worker")
    first, second = (torch.load(tmp_path / f"rank{rank}.pt", weights_only=False) for rank in (0, 1))
    for stage in STAGES:
        for rank in (first, second):
            assert rank[stage]["drawn"] == rank[stage]["again"], f"stage {stage}: chance after resuming"
            assert rank[stage]["seconds"] < 150  # the ranks' barrier would have taken 300
        assert first[stage]["drawn"] != second[stage]["drawn"]
        assert first[stage]["refused"] == ""
        assert second[stage]["refused"] != ""


def test_case_e2_what_a_trainer_exports_is_what_it_trained(models, tmp_path):
    """B to D: tied and untied, in bf16 on two ranks, read back with plain transformers."""
    run("exports", 2, models, tmp_path, worker="save_worker")
    trained = torch.load(tmp_path / "rank0.pt", weights_only=False)
    for name, tied in (("tied", True), ("untied", False)):
        folder = tmp_path / name
        again, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
        assert not any(report.values()), report  # nothing newly initialized, nothing left over
        assert again.dtype == torch.bfloat16
        assert json.loads((folder / "config.json").read_text())["dtype"] == "bfloat16"
        assert torch.equal(again.lm_head.weight, again.model.embed_tokens.weight) == tied
        with safe_open(folder / "model.safetensors", "pt") as file:
            assert ("lm_head.weight" in file.keys()) != tied  # noqa: SIM118
        start = AutoModelForCausalLM.from_pretrained(models / name, dtype=torch.bfloat16)
        for key, weight in dict(again.named_parameters()).items():
            assert torch.equal(weight, trained[name][key].bfloat16()), f"{name}: {key} as exported"
        assert not torch.equal(again.model.embed_tokens.weight, start.model.embed_tokens.weight)
        assert AutoTokenizer.from_pretrained(folder).chat_template == CHAT_TEMPLATE
        assert (folder / "generation_config.json").is_file()
