"""Hub names: asked for only when not local-looking, and one clear line without a network."""

import json
from unittest.mock import MagicMock

import datasets
import huggingface_hub
import pytest
from huggingface_hub.errors import RepositoryNotFoundError

from openrlhf.data import hub
from openrlhf.data.errors import DataError
from openrlhf.data.hub import hub_name
from openrlhf.data.source import load_rows


def _load(name, **kwargs):
    return [row.values["q"] for row in load_rows(name, required=["q"], **kwargs)]


def _stub_api(monkeypatch, error):
    def dataset_info(self, name, timeout):
        raise error

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", dataset_info)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("zhuzilin/dapo-math-17k", "zhuzilin/dapo-math-17k"),
        ("gsm8k", "gsm8k"),
        ("hf://datasets/a/b.c", "a/b.c"),
        ("a b", None),
        ("a/b/c", None),
        ("", None),
        ("/a", None),
    ],
)
def test_names_that_could_lie_on_the_hub(name, expected):
    assert hub_name(name) == expected


def test_without_a_network_there_is_one_clear_line_at_once(monkeypatch):
    _stub_api(monkeypatch, OSError("[Errno -2] Name or service not known"))
    build, modes = datasets.load_dataset_builder, []

    def recorded(*args, **kwargs):  # out of offline mode this call would retry for half a minute
        modes.append((datasets.config.HF_HUB_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE))
        assert modes[-1] == (True, True)
        return build(*args, **kwargs)

    monkeypatch.setattr(datasets, "load_dataset_builder", recorded)
    before = datasets.config.HF_HUB_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE
    with pytest.raises(
        DataError, match=r"^nobody/nothing-here: no such file .*hub cannot be reached \(\[Errno -2\]"
    ) as caught:
        _load("nobody/nothing-here")
    assert modes == [(True, True)]
    assert "\n" not in str(caught.value)
    assert before == (datasets.config.HF_HUB_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE)


def test_a_name_that_the_hub_does_not_know(monkeypatch):
    _stub_api(monkeypatch, RepositoryNotFoundError("404", response=MagicMock()))
    with pytest.raises(DataError, match="no dataset of that name on the hub"):
        _load("nobody/nothing-here")


@pytest.fixture
def on_hub(tmp_path, monkeypatch):
    """A hub that answers; its datasets are folders here, taken apart by the real `datasets` builders."""
    build = datasets.load_dataset_builder

    def local_builder(name, data_dir=None):
        return build(str(tmp_path / name), data_dir=data_dir, cache_dir=str(tmp_path / "cache"))

    monkeypatch.setattr(hub, "_probe", lambda name: None)
    monkeypatch.setattr(datasets, "load_dataset_builder", local_builder)
    return tmp_path / "owner" / "name"


def test_json_of_the_hub_is_read_value_by_value(on_hub):
    on_hub.mkdir(parents=True)
    labels = [2, "007", None, "2020-01-01", True]
    lines = "".join(json.dumps({"q": label}) + "\n" for label in labels)
    (on_hub / "train.jsonl").write_text(lines)
    (on_hub / "test.jsonl").write_text('{"q": "x"}\n')
    assert _load("owner/name") == labels
    assert _load("owner/name", split="test[:1]") == ["x"]
    with pytest.raises(DataError, match="owner/name: no split 'validation'; it has train, test"):
        _load("owner/name", split="validation")


def test_csv_and_parquet_of_the_hub(on_hub):
    on_hub.mkdir(parents=True)
    (on_hub / "train.csv").write_text("q\n007\n")
    assert _load("owner/name") == ["007"]
    typed = on_hub.parent / "typed" / "hard"
    datasets.Dataset.from_dict({"q": [1, None]}).to_parquet(typed / "train.parquet")
    datasets.Dataset.from_dict({"q": [5]}).to_parquet(typed.parent / "easy" / "train.parquet")
    assert _load("owner/typed@hard") == [1, None]
    with pytest.raises(DataError, match="no split 'test'; it has train"):
        _load("owner/typed", split="test")


def test_a_hub_dataset_that_cannot_be_read_is_named(on_hub):
    (on_hub / "nothing").mkdir(parents=True)
    with pytest.raises(DataError, match=r"^owner/name: not readable from the hub: ") as caught:
        _load("owner/name")
    assert "\n" not in str(caught.value)
