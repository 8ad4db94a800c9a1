"""Rows with images: as many as placeholders, in their order, or one line that names row and image."""

import json

import pytest

from openrlhf.data.errors import DataError
from openrlhf.data.images import check_images_fit
from openrlhf.data.prompts import build_prompts
from openrlhf.types import Prompt
from tests.fakes import FakeImageTokens, FakeTokenizer
from tests.pictures import file_of, picture, plain

SEED_ROW = {
    "prompt": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Find x."}]}],
    "images": ["red.png"],
    "label": "3",
}


class PartsTokenizer(FakeTokenizer):
    """Its template joins the parts: an image is `#`."""

    chat_template = "in Python, below"

    def apply_chat_template(self, messages, tokenize=False, add_generation_prompt=False):
        parts = [part for message in messages for part in message["content"]]
        return "".join("#" if part["type"] == "image" else part["text"] for part in parts)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "red.png").write_bytes(file_of(plain("red")))
    (tmp_path / "blue.png").write_bytes(file_of(plain("blue")))
    return tmp_path


def build(folder, *rows, max_images=2, **options):
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"input_key": "prompt", "apply_chat_template": True, "tokenizer": PartsTokenizer()} | options
    return build_prompts(str(folder / "rows.jsonl"), vision=FakeImageTokens(max_images), **options)


def test_the_guides_row(folder):
    assert list(build(folder, SEED_ROW, label_key="label")) == [Prompt(0, "#Find x.", "3", (picture("red"),))]


def test_strings_say_image_and_rows_without_images_are_mixed_in(folder):
    text = [{"role": "user", "content": "no picture"}]
    rows = [
        {"prompt": "is <image> like <image>?", "images": ["red.png", "blue.png"]},
        {"prompt": text, "images": None},
        {"prompt": text},
        {"prompt": [{"role": "user", "content": "<image>"}], "images": "blue.png"},
    ]
    prompts = build(folder, *rows)
    assert [prompt.text for prompt in prompts] == ["is # like #?", "no picture", "no picture", "#"]
    red, blue = picture("red"), picture("blue")
    assert [prompt.images for prompt in prompts] == [(red, blue), (), (), (blue,)]


def test_without_a_chat_template_the_placeholder_is_the_models(folder):
    row = {"prompt": "<image> what?", "images": ["red.png"]}
    (prompt,) = build(folder, row, apply_chat_template=False, input_template="Q: {}")
    assert (prompt.text, prompt.images) == ("Q: # what?", (picture("red"),))


def test_the_input_template_may_hold_the_placeholder(folder):
    rows = {"prompt": "what?", "images": ["red.png"]}
    (prompt,) = build(folder, rows, apply_chat_template=False, input_template="<image> Q: {}")
    assert (prompt.text, prompt.images) == ("# Q: what?", (picture("red"),))


@pytest.mark.parametrize("cell", [None, "", "  ", {}, {"bytes": None, "path": None}, {"bytes": None, "path": ""}])
def test_an_empty_cell_is_no_image(folder, cell):
    (prompt,) = build(folder, {"prompt": "text", "images": cell})
    assert prompt.images == ()
    with pytest.raises(DataError, match=r"rows.jsonl:1: 'images', image 1: "):
        build(folder, {"prompt": "<image>", "images": [cell]})  # in a list somebody meant an image


def test_an_empty_cell_of_csv_is_no_image(folder):
    (folder / "rows.csv").write_text("prompt,images\n<image>?,red.png\ntext,\n")
    with_image, without = build_prompts(str(folder / "rows.csv"), input_key="prompt", vision=FakeImageTokens())
    assert (with_image.images, without.images) == ((picture("red"),), ())


WRONG = {
    "too few": ({"prompt": "<image> <image>", "images": ["red.png"]}, "'images' has 1 images, but .* places for 2"),
    "too many": ({"prompt": "<image>", "images": ["red.png"] * 2}, "'images' has 2 images, but .* places for 1"),
    "over the limit": (
        {"prompt": "<image>" * 3, "images": ["red.png"] * 3},
        "has 3 images; --data.max_images_per_prompt is 2",
    ),
    "missing": (
        {"prompt": "<image> <image>", "images": ["red.png", "none.png"]},
        "'images', image 2: none.png: No such file",
    ),
    "broken": ({"prompt": "<image>", "images": ["rows.jsonl"]}, "'images', image 1: rows.jsonl: not an image"),
    "inside the part": (
        {"prompt": [{"role": "user", "content": [{"type": "image", "image": "red.png"}]}]},
        "an image part with type, image; images belong in the row's --data.image_key",
    ),
    "another part": (
        {"prompt": [{"role": "user", "content": [{"type": "video"}]}]},
        'a part that is neither {"type": "text"',
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_images_are_one_line_with_the_row(folder, name):
    row, says = WRONG[name]
    with pytest.raises(DataError, match=rf"rows.jsonl:2: .*{says}") as caught:
        build(folder, {"prompt": "fine"}, row)
    assert "\n" not in str(caught.value)


def test_a_text_only_run_refuses_placeholders_and_reads_no_images(folder):
    with pytest.raises(DataError, match=r"shows 1 images, but --data.max_images_per_prompt is 0"):
        build(folder, SEED_ROW, max_images=0)
    (prompt,) = build(folder, {"prompt": "text", "images": ["none.png"]}, max_images=0)
    assert prompt.images == ()


def test_parts_need_a_model_that_sees(folder):
    (folder / "rows.jsonl").write_text(json.dumps(SEED_ROW) + "\n")
    with pytest.raises(DataError, match="of type list, expected a string; parts are for vision-language models"):
        build_prompts(
            str(folder / "rows.jsonl"), input_key="prompt", apply_chat_template=True, tokenizer=PartsTokenizer()
        )


def test_the_fingerprint_knows_the_pictures(folder):
    before = build(folder, SEED_ROW).fingerprint
    assert build(folder, SEED_ROW).fingerprint == before
    (folder / "red.png").write_bytes(file_of(plain("blue")))
    assert build(folder, SEED_ROW).fingerprint != before


def test_a_prompt_with_images_must_fit_whole():
    # `a#` with an image of 30 pixels is a ( # # # ) = 6 tokens.
    prompts = [Prompt(0, "long but text only"), Prompt(1, "a#", images=(picture(),))]
    check_images_fit(prompts, FakeTokenizer(), 6, FakeImageTokens(), "set")
    says = r"^set: prompt 1 \('a#', images: an image in memory\) has 6 tokens with its images, and only 5 are left"
    with pytest.raises(DataError, match=says):
        check_images_fit(prompts, FakeTokenizer(), 5, FakeImageTokens(), "set")


def test_an_image_without_its_place_among_the_tokens_is_one_line():
    prompts = [Prompt(0, "a", images=(picture(),))]
    with pytest.raises(DataError, match=r"^set: prompt 0 .*: 0 placeholders for 1 images$"):
        check_images_fit(prompts, FakeTokenizer(), 9, FakeImageTokens(), "set")


@pytest.mark.parametrize("typed", [False, True])
def test_parquet_holds_images_as_bytes_or_as_a_column_of_images(folder, typed):
    import datasets
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = {"prompt": ["<image>", "none"], "images": [[{"bytes": file_of(plain("red")), "path": None}], None]}
    path = folder / "rows.parquet"
    if typed:
        features = datasets.Features({"prompt": datasets.Value("string"), "images": [datasets.Image()]})
        datasets.Dataset.from_dict(rows, features=features).to_parquet(str(path))
    else:
        pq.write_table(pa.table(rows), path)
    first, second = build_prompts(
        str(path), input_key="prompt", apply_chat_template=True, tokenizer=PartsTokenizer(), vision=FakeImageTokens()
    )
    assert [image.decode().getpixel((0, 0)) for image in first.images] == [(255, 0, 0)]
    assert second.images == ()


SEES = {"input_key": "prompt", "apply_chat_template": True, "tokenizer": PartsTokenizer(), "vision": FakeImageTokens()}


def with_column_of_images(*images):
    import datasets

    features = datasets.Features({"prompt": datasets.Value("string"), "images": [datasets.Image()]})
    rows = {"prompt": ["<image>"] * len(images), "images": [[image] for image in images]}
    return datasets.Dataset.from_dict(rows, features=features)


@pytest.mark.parametrize("saved", [False, True])
def test_a_broken_image_in_a_column_of_images_is_one_line_with_the_row(folder, saved):
    rows = with_column_of_images({"bytes": file_of(plain()), "path": None}, {"bytes": b"broken", "path": "b.png"})
    path = folder / ("set" if saved else "set.parquet")
    rows.save_to_disk(str(path)) if saved else rows.to_parquet(str(path))
    with pytest.raises(DataError, match=r"row 2: 'images', image 1: b.png: not an image") as caught:
        build_prompts(str(path), **SEES)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_paths_in_a_column_of_images_are_relative_to_the_data(folder):
    import pyarrow.parquet as pq

    pq.write_table(with_column_of_images("red.png", "none.png").data.table, folder / "set.parquet")
    (prompt,) = build_prompts(str(folder / "set.parquet"), split="train[:1]", **SEES)
    assert prompt.images == (picture("red"),)
    with pytest.raises(DataError, match=r"row 2: 'images', image 1: none.png: No such file or directory"):
        build_prompts(str(folder / "set.parquet"), **SEES)


def test_paths_of_a_saved_folder_start_in_it_then_beside_it(folder):
    import datasets

    rows = {"prompt": ["<image>"] * 2, "images": ["red.png", "blue.png"]}
    datasets.Dataset.from_dict(rows).save_to_disk(str(folder / "set"))
    (folder / "set" / "red.png").write_bytes(file_of(plain("lime")))  # another is beside the folder
    inside, beside = build_prompts(str(folder / "set"), **SEES)
    assert (inside.images, beside.images) == ((picture("lime"),), (picture("blue"),))


def test_an_address_in_many_rows_is_fetched_once(folder, monkeypatch):
    asked = []

    def download(address):
        asked.append(address)
        return file_of(plain("red"))

    monkeypatch.setattr("openrlhf.images._download", download)
    prompts = build(folder, *[{"prompt": "<image>", "images": "http://here/a.png"}] * 3)
    assert [prompt.images for prompt in prompts] == [(picture("red"),)] * 3
    assert asked == ["http://here/a.png"]
