"""A model folder is whole or not there."""

from pathlib import Path

import pytest

from openrlhf.models.model_folder import model_folder


def names(folder) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def write(folder, *files: str) -> None:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("new")


def test_its_files_lie_beside_what_was_there(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("{}")
    with model_folder(tmp_path) as hidden:
        write(hidden, "config.json", "model.safetensors", "templates/tool.jinja")
        assert names(tmp_path)[-1] == "metrics.jsonl"
    assert names(tmp_path) == ["config.json", "metrics.jsonl", "model.safetensors", "templates/tool.jinja"]
    assert not list(tmp_path.glob(".*"))


def test_an_earlier_model_is_replaced_with_all_its_weights(tmp_path):
    write(tmp_path, "model-00001-of-00002.safetensors", "model.safetensors.index.json", "templates/old.jinja")
    (tmp_path / "config.json").write_text("old")
    with model_folder(tmp_path) as hidden:
        write(hidden, "config.json", "model.safetensors", "templates/tool.jinja")
    assert names(tmp_path) == ["config.json", "model.safetensors", "templates/tool.jinja"]
    assert (tmp_path / "config.json").read_text() == "new"


def test_a_failure_leaves_the_folder_as_it_was(tmp_path):
    write(tmp_path, "model.safetensors")

    def export():
        with model_folder(tmp_path) as hidden:
            write(hidden, "model.safetensors", "config.json")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        export()
    assert names(tmp_path) == ["model.safetensors"]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("moved", [0, 1])
def test_a_replacement_that_is_cut_off_leaves_nothing_that_passes_for_a_model(tmp_path, monkeypatch, moved):
    write(tmp_path, "model.safetensors", "config.json")
    place, done = Path.replace, []

    def killed(path, target):
        if len(done) == moved:
            raise KeyboardInterrupt
        done.append(place(path, target))

    monkeypatch.setattr(Path, "replace", killed)

    def export():
        with model_folder(tmp_path) as hidden:
            write(hidden, "model.safetensors", "tokenizer.json", "config.json")

    with pytest.raises(KeyboardInterrupt):
        export()
    assert names(tmp_path) == ["model.safetensors"][:moved]


def test_what_a_killed_process_left_goes_with_the_next_one(tmp_path):
    with model_folder(tmp_path) as hidden:
        pass
    write(hidden, "half.safetensors")
    with model_folder(str(tmp_path)) as hidden:
        write(hidden, "config.json")
    assert names(tmp_path) == ["config.json"]
