"""The vision example's own parts: its pictures show what the labels say, and its reward reads the answer."""

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest

from openrlhf.rollout.user_agent import load_agent

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def load(name: str) -> ModuleType:
    path = EXAMPLES / "vision" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def data(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES / "vision"))
    monkeypatch.delitem(sys.modules, "pictures", raising=False)
    return load("make_data")


def islands(image) -> int:
    """Connected groups of white pixels."""
    left = {(x, y) for x in range(image.width) for y in range(image.height) if image.getpixel((x, y)) == (255,) * 3}
    count = 0
    while left:
        count += 1
        todo = [left.pop()]
        while todo:
            x, y = todo.pop()
            near = {(x + dx, y + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)} & left
            left -= near
            todo += near
    return count


def test_as_many_discs_as_the_label_says():
    pictures = load("pictures")
    for seed in range(40):
        count = 1 + seed % pictures.MOST_SHAPES
        assert islands(pictures.shapes(count, random.Random(seed))) == count


def test_rows_and_their_pictures(data, tmp_path):
    train, test = data.make_rows(tmp_path)
    assert (len(train), len(test)) == (data.NUM_TRAIN, data.NUM_TEST)
    assert [row["datasource"] for row in train[:4]] == ["colour", "count"] * 2
    pictures = load("pictures")
    from PIL import Image

    for row in train[:20:2]:
        with Image.open(tmp_path / row["images"][0]) as image:
            colours = {colour for _, colour in image.getcolors()}
        assert colours == {(128, 128, 128), pictures.COLOURS[row["label"]]}


def test_the_reward_is_the_label_and_nothing_but_the_label():
    prompt = "user : <image> what colour is it assistant :"
    queries = [f"{prompt} red </s>", f"{prompt} red red", f"{prompt} blue </s>", prompt]
    found = load("reward_func").reward_func(queries, [prompt] * 4, ["red"] * 4)
    assert found["rewards"].tolist() == [1, 0, 0, 0]


def test_the_agent_is_one():
    load_agent(EXAMPLES / "python" / "vlm_multiturn_agent.py")
