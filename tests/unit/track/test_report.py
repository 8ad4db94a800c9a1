"""The report page: complete in one file, and deaf to what models write."""

import base64
import io
import json
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from openrlhf.cli.report import main
from openrlhf.track.errors import TrackError
from openrlhf.track.report.page import render
from openrlhf.track.report.run_data import read_run, unique_names
from openrlhf.track.rollout_file import rollout_file, write_samples
from tests.models import make_tiny_tokenizer
from tests.pictures import file_of, plain

SEGMENT = {
    "token_ids": [5, 6, 7],
    "action_mask": [0, 1, 1],
    "loss_mask": [0, 1, 1],
    "logprobs": [0.0, -0.5, -1.5],
    "policy_versions": [-1, 0, 0],
    "turns": [],
}


def sample(step: int, index: int) -> dict:
    return {
        "step": step,
        "sample_id": f"{step}:0/{index}",
        "reward": 1.0,
        "score": 1.0,
        "status": "graded",
        "reason": "",
        "label": "</script><script>alert(1)</script>",
        "truncated": False,
        "extra_logs": {},
        "segments": [SEGMENT],
    }


def write_run(folder: Path, steps: int = 3, per_step: int = 2) -> Path:
    (folder / "rollouts").mkdir(parents=True)
    rows = [{"step": step, "rollout/reward_mean": step / 10, "train/kl": None} for step in range(1, steps + 1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for step in range(1, steps + 1):
        write_samples(rollout_file(folder / "rollouts", step), [sample(step, index) for index in range(per_step)])
    return folder


def embedded(page: str) -> dict:
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, flags=re.S)
    return json.loads(data)


def test_the_page_holds_rows_and_tokens_with_their_text(tmp_path):
    run = read_run(write_run(tmp_path / "run"), "run", lambda ids: [f"<{i}>" for i in ids], max_samples=100)
    (shown,) = embedded(render([run]))["runs"]
    assert shown["steps"] == [1, 2, 3]
    assert shown["metrics"] == {"rollout/reward_mean": [0.1, 0.2, 0.3], "train/kl": [None, None, None]}
    assert len(shown["samples"]) == 6
    assert shown["samples"][0]["segments"][0]["pieces"] == ["<5>", "<6>", "<7>"]


def test_what_a_model_wrote_is_never_markup(tmp_path):
    page = render([read_run(write_run(tmp_path / "<b>run"), "<b>run", None, 100)])
    assert "<script>alert" not in page
    assert "<b>run" not in page
    assert embedded(page)["runs"][0]["samples"][0]["label"] == "</script><script>alert(1)</script>"


def shown_image(address: str) -> Image.Image:
    head, _, body = address.partition(",")
    assert head == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(body)))


def test_images_are_inside_the_page_each_once_and_small(tmp_path):
    folder = write_run(tmp_path / "run", steps=1, per_step=1)
    images = folder / "rollouts" / "images"
    images.mkdir()
    (images / "a.png").write_bytes(file_of(plain("red", 1000, 500)))
    (images / "broken.png").write_bytes(b"pixels")
    (tmp_path / "secret.png").write_bytes(file_of(plain("blue")))
    names = ["a.png", "a.png", "gone.png", "broken.png", "../../../secret.png", str(tmp_path / "secret.png")]
    rows = [sample(1, index) | {"segments": [SEGMENT | {"images": names}]} for index in range(3)]
    write_samples(rollout_file(folder / "rollouts", 1), rows)
    page = render([read_run(folder, "run", None, 10)])
    shown = embedded(page)["runs"][0]
    assert [each["segments"][0]["images"] for each in shown["samples"]] == [names] * 3
    assert list(shown["images"]) == ["a.png"]
    assert shown_image(shown["images"]["a.png"]).size == (256, 128)
    assert page.count("data:image") == 1


def test_the_page_asks_for_no_other_file(tmp_path):
    page = render([read_run(write_run(tmp_path / "run"), "run", None, 100)])
    assert re.findall(r"(?:src|href)\s*=|@import|url\(|fetch\(", page) == []
    assert [link for link in re.findall(r"https?://[^\"' ]+", page) if "w3.org" not in link] == []


def test_many_steps_are_thinned_and_the_last_is_kept(tmp_path):
    run = read_run(write_run(tmp_path / "run", steps=10, per_step=2), "run", None, max_samples=8)
    # 20 samples in 10 files of 2; room for 8, so every third file (ceil(20 / 8) = 3), from the last backwards.
    assert sorted({found["step"] for found in run.samples}) == [1, 4, 7, 10]


def test_a_folder_without_metrics_is_named(tmp_path):
    with pytest.raises(TrackError, match=r"no metrics\.jsonl"):
        read_run(tmp_path, "x", None, 10)


def test_half_a_line_costs_only_itself(tmp_path):
    folder = write_run(tmp_path / "run", steps=2)
    with (folder / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"step": 3, "rollout/rew')
    write_samples(rollout_file(folder / "rollouts", 2), [sample(2, 0) | {"segments": [{}]}])
    run = read_run(folder, "run", None, 100)
    assert [row["step"] for row in run.rows] == [1, 2]
    assert [found["step"] for found in run.samples] == [1, 1]
    assert run.notes == [
        "metrics.jsonl: 1 line could not be read",
        "step_000002.jsonl.gz: 1 of 1 samples are incomplete",
    ]


def test_a_damaged_file_of_rollouts_costs_only_its_end(tmp_path):
    folder = write_run(tmp_path / "run", steps=3, per_step=60)
    cut, other = rollout_file(folder / "rollouts", 1), rollout_file(folder / "rollouts", 2)
    random_text = random.Random(0)
    write_samples(cut, [sample(1, index) | {"response": str(random_text.random())} for index in range(2000)])
    cut.write_bytes(cut.read_bytes()[:-2000])
    other.write_bytes(b"not gzip at all")
    run = read_run(folder, "run", None, 9999)
    found = Counter(shown["step"] for shown in run.samples)
    assert 0 < found[1] < 2000
    assert (found[2], found[3]) == (0, 60)
    assert [note.split(" (")[0] for note in run.notes] == [
        "step_000001.jsonl.gz: damaged, its end could not be read",
        "step_000002.jsonl.gz: damaged, its end could not be read",
    ]


def test_names_tell_runs_apart(tmp_path):
    assert unique_names([tmp_path / "a" / "run", tmp_path / "b" / "run"]) == ["a/run", "b/run"]
    assert unique_names([tmp_path / "a", tmp_path / "b"]) == ["a", "b"]
    assert unique_names([tmp_path / "a", tmp_path / "a"]) == ["a (1)", "a (2)"]


def test_the_command_writes_beside_the_run_and_says_what_it_lacks(tmp_path, capsys):
    run = write_run(tmp_path / "run")
    assert main([str(run)]) == 0
    printed = capsys.readouterr()
    assert printed.out.strip() == str(run / "report.html")
    assert "there is no tokenizer" in printed.err
    assert (run / "report.html").stat().st_size > 5000


def test_the_command_refuses_another_folder_in_one_line(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert len([line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]) == 1


def test_no_more_samples_than_asked_for_and_the_page_says_so(tmp_path):
    run = read_run(write_run(tmp_path / "run", steps=2, per_step=10), "run", None, max_samples=6)
    # All files hold 20 samples, so every fourth file is shown, which is the last one alone, and 6 of its 10.
    assert [(sample["step"], sample["sample_id"][-1]) for sample in run.samples] == [(2, str(i)) for i in range(6)]
    assert run.notes == ["step_000002.jsonl.gz: 6 of 10 samples are shown (--max_samples 6)"]


def test_a_page_holds_so_many_tokens_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr("openrlhf.track.report.run_data.MOST_TOKENS", 7)  # a sample has 3
    run = read_run(write_run(tmp_path / "run", steps=1, per_step=4), "run", None, max_samples=100)
    assert len(run.samples) == 2
    assert run.notes == ["step_000001.jsonl.gz: samples from here on are not shown, for a page holds 7 tokens"]


@pytest.mark.parametrize("wrong", [{"segments": 5}, {"extra_logs": [1]}, {"segments": [5]}])
def test_a_sample_that_is_none_is_left_out(tmp_path, wrong):
    folder = write_run(tmp_path / "run", steps=1)
    write_samples(rollout_file(folder / "rollouts", 1), [sample(1, 0) | wrong, sample(1, 1)])
    run = read_run(folder, "run", None, max_samples=100)
    assert [each["sample_id"] for each in run.samples] == ["1:0/1"]
    assert run.notes == ["step_000001.jsonl.gz: 1 of 2 samples are incomplete"]


def test_a_folder_that_is_no_runs_is_refused_before_its_tokenizer_is_looked_for(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path}: holds no metrics.jsonl, so it is not the folder of a run\n"


def test_the_exported_tokenizer_gives_the_text(tmp_path, capsys):
    folder = write_run(tmp_path / "run", steps=1)
    make_tiny_tokenizer().save_pretrained(folder)
    (folder / "config.yaml").write_text("actor: {model_name_or_path: nobody/has-this-model}")
    assert main([str(folder)]) == 0
    assert capsys.readouterr().err == ""
