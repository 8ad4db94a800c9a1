"""The documented command on images names the columns of the data that it names."""

import json
import re
from pathlib import Path

import pytest

from openrlhf.data.prompts import build_prompts
from tests.fakes import FakeImageTokens, FakeTokenizer
from tests.pictures import file_of, plain

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("file", ["examples/scripts/train_vlm_math_hybrid_engine.sh", "docs/vision.md"])
def test_the_command_reads_rows_of_its_dataset(file, tmp_path):
    text = (ROOT / file).read_text()
    assert "hiyouga/geometry3k" in text
    flag = r'--data\.(input_key|label_key|image_key) "?(?:\$\{\w+:-)?(\w+)'  # as it is, or the default of a variable
    keys = dict(re.findall(flag, text))
    row = {"images": ["1.png"], "problem": "<image>Find x.", "answer": "3"}  # the form of hiyouga/geometry3k
    (tmp_path / "1.png").write_bytes(file_of(plain()))
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    (prompt,) = build_prompts(
        str(tmp_path / "rows.jsonl"), tokenizer=FakeTokenizer(), vision=FakeImageTokens(1), **keys
    )
    assert (prompt.text, prompt.label, len(prompt.images)) == ("#Find x.", "3", 1)
