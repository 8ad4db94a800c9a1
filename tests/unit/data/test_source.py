"""Case i1, and everything a dataset flag may say."""

import json
import socket

import datasets
import pytest

from openrlhf.data.errors import DataError
from openrlhf.data.layout import split_word
from openrlhf.data.source import load_rows


class NetworkUsed(BaseException):
    """No Exception, so that no `except Exception` on the way can take it for a hub that is out of reach."""


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise NetworkUsed

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


def _write(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"q": value}) + "\n" for value in values))
    return path


def _load(spec, **kwargs):
    return [row.values["q"] for row in load_rows(str(spec), required=["q"], **kwargs)]


@pytest.fixture
def folder(tmp_path):
    _write(tmp_path / "set" / "train.jsonl", ["a", "b", "c"])
    _write(tmp_path / "set" / "test.jsonl", ["x", "y"])
    return tmp_path / "set"


def test_a_folder_with_train_and_test_files(folder):
    assert _load(folder) == ["a", "b", "c"]
    assert _load(folder, split="test") == ["x", "y"]
    assert _load(folder, split="train[1:]+test[:1]") == ["b", "c", "x"]


def test_a_missing_split_names_what_exists_and_falls_back_to_nothing(folder):
    with pytest.raises(DataError, match=r"set: no split 'validation'; it has test, train$"):
        _load(folder, split="validation")
    with pytest.raises(DataError, match=r"no split 'validation'; it has train$"):
        _load(folder / "train.jsonl", split="validation")


def test_a_single_file_gives_its_rows_as_train_or_as_the_split_in_its_name(folder):
    assert _load(folder / "test.jsonl") == ["x", "y"]
    assert _load(folder / "test.jsonl", split="test") == ["x", "y"]


def test_a_folder_whose_files_name_no_split_is_train(tmp_path):
    _write(tmp_path / "one" / "data.jsonl", ["a"])
    (tmp_path / "one" / "README.md").write_text("about")
    assert _load(tmp_path / "one") == ["a"]
    _write(tmp_path / "shards" / "part-0.jsonl", ["a"])
    _write(tmp_path / "shards" / "part-1.jsonl", ["b"])
    assert _load(tmp_path / "shards") == ["a", "b"]
    with pytest.raises(DataError, match="no split 'test'; it has train"):
        _load(tmp_path / "one", split="test")


def test_splits_named_by_folders_shards_and_synonyms(tmp_path):
    _write(tmp_path / "train" / "b.jsonl", ["b"])
    _write(tmp_path / "train" / "a.jsonl", ["a"])
    _write(tmp_path / "dev" / "a.jsonl", ["d"])
    _write(tmp_path / "data" / "hard-00000-of-00002.jsonl", ["h0"])
    _write(tmp_path / "data" / "hard-00001-of-00002.jsonl", ["h1"])
    _write(tmp_path / "data" / "test-00000-of-00001.jsonl", ["t"])
    _write(tmp_path / ".cache" / "train.jsonl", ["hidden"])
    assert _load(tmp_path) == ["a", "b"]
    assert _load(tmp_path, split="validation") == ["d"]
    assert _load(tmp_path, split="hard") == ["h0", "h1"]
    assert _load(tmp_path, split="test") == ["t"]


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("trainset", "testset"),
        ("mathTrain", "mathTest"),
        ("GSMTrainSplit", "GSMTestSplit"),
        ("traindata/a", "testdata/a"),
        ("train_set", "data_test"),
        ("datatrain", "splittest"),
    ],
)
def test_a_split_is_heard_in_compound_names(tmp_path, train, test):
    _write(tmp_path / f"{train}.jsonl", ["a", "b", "c"])
    _write(tmp_path / f"{test}.jsonl", ["x", "y"])
    assert _load(tmp_path) == ["a", "b", "c"]
    assert _load(tmp_path, split="test") == ["x", "y"]


@pytest.mark.parametrize(
    ("train", "other"),
    [
        (["train/MCTest", "train/gsm8k"], ["test/gsm8k"]),
        (["HumanEval-train"], ["HumanEval-test"]),
        (["DevOps", "Cooking"], []),
        (["HumanEval"], []),
        (["HumanEval", "DevOps"], []),
    ],
)
def test_names_that_happen_to_hold_a_split_move_no_training_file(tmp_path, train, other):
    for name in (*train, *other):
        _write(tmp_path / f"{name}.jsonl", [name])
    assert sorted(_load(tmp_path)) == sorted(train)


def test_a_shard_that_is_missing_of_another_split_is_nobody_s_loss(tmp_path):
    _write(tmp_path / "train-00000-of-00001.jsonl", ["a"])
    _write(tmp_path / "test-00000-of-00002.jsonl", ["x"])
    assert _load(tmp_path) == ["a"]


def test_words_that_only_hold_a_splits_name_are_none():
    assert [split_word(name) for name in ("latest", "dataset", "contest", "restrain", "evaluated", "setting")] == [
        None
    ] * 6


def test_files_whose_names_speak_of_no_split_are_named_in_a_warning(tmp_path, caplog):
    _write(tmp_path / "heldout.jsonl", ["x"])
    assert _load(tmp_path) == ["x"]
    assert caplog.text == ""
    _write(tmp_path / "questions.jsonl", ["a"])
    assert _load(tmp_path) == ["x", "a"]
    assert "no name speaks of a split, so all of these files are train: heldout.jsonl, questions.jsonl" in caplog.text
    _write(tmp_path / "train.jsonl", ["t"])
    assert _load(tmp_path) == ["t"]
    assert "the names of heldout.jsonl, questions.jsonl speak of no split, so these files are not read" in caplog.text


def test_a_missing_shard_is_named(tmp_path):
    _write(tmp_path / "en-train-00000-of-00004.jsonl", ["a"])
    _write(tmp_path / "en-train-00002-of-00004.jsonl", ["c"])
    with pytest.raises(DataError, match=r"split 'train' lacks en-train-\.\.\. 00001, 00003 of 00004; fetch"):
        _load(tmp_path)
    _write(tmp_path / "en-train-00001-of-00004.jsonl", ["b"])
    _write(tmp_path / "en-train-00003-of-00004-0123456789abcdef.jsonl", ["d"])  # the hub's names may end in a hash
    assert _load(tmp_path) == ["a", "b", "c", "d"]


def test_shards_may_be_counted_from_one(tmp_path):
    _write(tmp_path / "train-00001-of-00002.jsonl", ["a"])
    with pytest.raises(DataError, match=r"lacks train-\.\.\. 00000 of 00002"):
        _load(tmp_path)
    _write(tmp_path / "train-00002-of-00002.jsonl", ["b"])
    assert _load(tmp_path) == ["a", "b"]


def test_one_split_in_two_formats_is_refused(folder):
    (folder / "train.csv").write_text("q\na\n")
    assert _load(folder / "train.csv") == ["a"]
    with pytest.raises(DataError, match=r"'train' exists in several formats \(train.csv, train.jsonl\)"):
        _load(folder)


def test_saved_to_disk_with_and_without_splits(tmp_path):
    train, test = datasets.Dataset.from_dict({"q": ["a"]}), datasets.Dataset.from_dict({"q": ["x", "y"]})
    datasets.DatasetDict({"train": train, "test": test}).save_to_disk(tmp_path / "both")
    assert _load(tmp_path / "both") == ["a"]
    assert _load(tmp_path / "both", split="test") == ["x", "y"]
    with pytest.raises(DataError, match="no split 'validation'; it has train, test"):
        _load(tmp_path / "both", split="validation")
    test.save_to_disk(tmp_path / "single")
    assert _load(tmp_path / "single") == ["x", "y"]
    (tmp_path / "single" / "state.json").write_text("{}")
    with pytest.raises(DataError, match="single: not readable as a saved-to-disk folder"):
        _load(tmp_path / "single")


def test_the_other_formats(tmp_path):
    (tmp_path / "rows.json").write_text('[{"q": "a"}, {"q": "b"}]')
    assert _load(tmp_path / "rows.json") == ["a", "b"]
    (tmp_path / "rows.csv").write_text("q,label\na,007\n")
    assert _load(tmp_path / "rows.csv") == ["a"]
    datasets.Dataset.from_dict({"q": ["p"]}).to_parquet(tmp_path / "rows.parquet")
    assert _load(tmp_path / "rows.parquet") == ["p"]


def test_split_notation_on_300_rows(tmp_path):
    path = _write(tmp_path / "rows.jsonl", [str(i) for i in range(300)])
    assert _load(path, split="train[:1%]") == ["0", "1", "2"]
    assert len(_load(path, split="[:10]")) == 10
    assert len(_load(path, split="train[5:]")) == 295


@pytest.mark.parametrize(
    "spec", ["{tmp}/nope", "{tmp}/set/nope.jsonl", "nope.jsonl", "./nope", "set/nope", "a/b/c", "~/nope~"]
)
def test_a_missing_local_path_is_named_and_never_looked_up(folder, monkeypatch, spec):
    monkeypatch.chdir(folder.parent)
    with pytest.raises(DataError, match=r"nope|a/b/c") as caught:
        _load(spec.format(tmp=folder.parent))
    assert "no such file or folder" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_tells_what_lies_beside_it(folder):
    with pytest.raises(DataError, match=r"set holds test.jsonl, train.jsonl$"):
        _load(folder / "trian.jsonl")


def test_path_at_dir_names_a_folder_inside(tmp_path):
    _write(tmp_path / "set" / "easy" / "train.jsonl", ["e"])
    _write(tmp_path / "set" / "hard" / "train.jsonl", ["h"])
    _write(tmp_path / "odd@name" / "train.jsonl", ["o"])
    assert _load(f"{tmp_path}/set@hard") == ["h"]
    assert _load(f"{tmp_path}/odd@name") == ["o"]
    with pytest.raises(DataError, match=r"set/medium: no such file or folder; .*set holds easy/, hard/$"):
        _load(f"{tmp_path}/set@medium")


def test_a_list_is_laid_end_to_end_with_max_samples_for_each_and_for_all(tmp_path):
    a = _write(tmp_path / "a.jsonl", ["a1", "a2", "a3"])
    b = _write(tmp_path / "b.jsonl", ["b1", "b2"])
    assert _load(f"{a}, {b}") == ["a1", "a2", "a3", "b1", "b2"]
    assert _load(f"{a},{b}", max_samples=2) == ["a1", "a2"]
    assert _load(f"{a},{b}", max_samples=4) == ["a1", "a2", "a3", "b1"]
    comma = _write(tmp_path / "x,y.jsonl", ["comma"])
    assert _load(comma) == ["comma"]
    with pytest.raises(DataError, match="max_samples"):
        _load(a, max_samples=0)


def test_a_list_with_probabilities_is_interleaved_until_all_are_used_up(tmp_path):
    a = _write(tmp_path / "a.jsonl", [f"a{i}" for i in range(4)])
    b = _write(tmp_path / "b.jsonl", [f"b{i}" for i in range(30)])
    rows = _load(f"{a},{b}", probs="0.5,0.5", seed=1)
    assert [row for row in rows if row[0] == "b"] == [f"b{i}" for i in range(30)]
    assert {row for row in rows if row[0] == "a"} == {"a0", "a1", "a2", "a3"}
    assert len([row for row in rows if row[0] == "a"]) > 4
    assert _load(f"{a},{b}", probs="0.5,0.5", seed=1, max_samples=5) == _per_set_cap(rows)
    assert _load(f"{a},{b}", probs="0.5,0.5", seed=1) == rows


def _per_set_cap(rows):
    """The first 5 of the blend; no set has wrapped by then, so the cap of 5 per set does not show."""
    assert sum(row[0] == "a" for row in rows[:5]) <= 4
    return rows[:5]


def test_faults_of_the_flag_itself(tmp_path):
    a = _write(tmp_path / "a.jsonl", ["a"])
    for spec in ("", "  ", f"{a},,{a}", f"{a},"):
        with pytest.raises(DataError, match="name"):
            _load(spec)
    with pytest.raises(DataError, match="1 of them for 2 datasets"):
        _load(f"{a},{a}", probs="1.0")
    with pytest.raises(DataError, match="no hub name either"):
        _load("what is this")


def test_an_unknown_column_lists_those_that_exist(tmp_path):
    path = _write(tmp_path / "a.jsonl", ["a"])
    with pytest.raises(DataError, match=r"a.jsonl: no column 'input'; its columns are q$"):
        load_rows(str(path), required=["input"])
    other = tmp_path / "b.jsonl"
    other.write_text('{"input": "x"}\n')
    with pytest.raises(DataError, match=r"b.jsonl: no column 'q'; its columns are input$"):
        _load(f"{path},{other}")


@pytest.mark.parametrize(
    ("name", "content"), [("a.jsonl", ""), ("a.jsonl", "\n \n"), ("a.json", "[]"), ("a.csv", "q\n"), ("a.csv", "")]
)
def test_an_empty_set_is_refused(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=rf"{name}: no rows in split 'train'"):
        _load(tmp_path / name)


def test_a_slice_without_rows_a_folder_without_data_and_an_unknown_format(tmp_path):
    path = _write(tmp_path / "a.jsonl", ["a"])
    with pytest.raises(DataError, match=r"no rows in split 'train\[:1%\]'"):
        _load(path, split="train[:1%]")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("")
    with pytest.raises(DataError, match=r"empty: no data files .* it holds notes.txt"):
        _load(tmp_path / "empty")
    with pytest.raises(DataError, match=r"unknown format '.txt'; expected one of .json, .jsonl"):
        _load(tmp_path / "empty" / "notes.txt")


@pytest.mark.parametrize("spec", ["x" * 300, "a\0b", ",".join(["x" * 300] * 3), "x" * 300 + "@part"])
def test_a_name_that_no_path_can_have_is_a_data_error(spec):
    with pytest.raises(DataError, match="no such file or folder"):
        load_rows(spec, required=["input"])
