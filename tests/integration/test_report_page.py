"""The report in headless Chromium: what a person sees, also of data that is broken, empty or very long."""

import gzip
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from openrlhf.track.report.page import render
from openrlhf.track.report.run_data import read_run
from openrlhf.track.rollout_file import rollout_file
from tests.pictures import file_of, plain

ATTACK = "<img src=x onerror=\"document.title='taken'\"></script><script>document.title='taken'</script>"
ODD = "日本語 \u202e\U0001f600\ufffd\n\t&amp;"


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))
    driver.set_page_load_timeout(60)
    driver.set_window_size(1280, 1000)
    yield driver
    driver.quit()


def segment(**added: Any) -> dict[str, Any]:
    """Four tokens: one given, three sampled, the last of them not trained on."""
    return {
        "token_ids": [5, 6, 7, 8],
        "action_mask": [0, 1, 1, 1],
        "loss_mask": [0, 1, 1, 0],
        "logprobs": [0.0, -0.5, -1.5, -0.1],
        "policy_versions": [-1, 3, 3, 4],
        **added,
    }


def sample(step: int, index: int, **changes: Any) -> dict[str, Any]:
    added = {"advantages": [0.0, 2.0, -1.0, 0.5], "train_logprobs": [0.0, -0.5, -1.4, -0.3]}
    return {
        "step": step,
        "sample_id": f"{step}:0/{index}",
        "reward": float(index),
        "shaped_reward": index - 0.25,
        "score": float(index),
        "status": "graded",
        "reason": "",
        "label": "forty two",
        "truncated": False,
        "extra_logs": {"format": 0.5},
        "segments": [segment(**added)],
    } | changes


def write_run(folder: Path, rows: Sequence[Any], samples: Sequence[dict[str, Any]] = ()) -> Path:
    """`rows`: objects, or text that is written as it is."""
    (folder / "rollouts").mkdir(parents=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "metrics.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    for step in {each["step"] for each in samples}:
        lines = [json.dumps(each) for each in samples if each["step"] == step]  # also what no run of ours would write
        with gzip.open(rollout_file(folder / "rollouts", step), "wt", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))
    return folder


def row(step: int, **changes: float | None) -> dict[str, float | None]:
    timing = {"timing/generation": 3.0, "timing/reward": 1.0, "timing/ppo_train": 5.0, "timing/step_total": 9.0}
    return {"step": step, "rollout/reward_mean": step / 10, **timing, **changes}


def show(browser: webdriver.Chrome, folder: Path, *runs: Path) -> None:
    """Open the report of the runs, named by their folders; tokens are shown as t5, t6, ..."""
    data = [read_run(run, run.name, lambda ids: [f"t{i} " for i in ids], max_samples=100) for run in runs]
    page = folder / "report.html"
    page.write_text(render(data), encoding="utf-8")
    browser.get(page.as_uri())


def texts(browser: webdriver.Chrome, selector: str) -> list[str]:
    return [element.text for element in browser.find_elements(By.CSS_SELECTOR, selector)]


def hover(browser: webdriver.Chrome, selector: str) -> list[str]:
    """The lines of the tip over an element."""
    element = browser.find_element(By.CSS_SELECTOR, selector)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    ActionChains(browser).move_to_element(element).perform()
    return texts(browser, "#tip > div")


def choose(browser: webdriver.Chrome, label: str, value: str) -> None:
    Select(browser.find_element(By.CSS_SELECTOR, f"[aria-label='{label}']")).select_by_value(value)


def backgrounds(browser: webdriver.Chrome) -> list[tuple[float, float, float, float]]:
    """(red, green, blue, alpha) of each token, each from 0 to 1."""
    script = """return [...document.querySelectorAll('.tokens span')].map(
        span => getComputedStyle(span).backgroundColor.match(/[-.e\\d]+/g).map(Number))"""
    found = []
    for values in browser.execute_script(script):
        scale = 255.0 if max(values[:3]) > 1 else 1.0
        found.append((*(value / scale for value in values[:3]), values[3] if len(values) > 3 else 1.0))
    return found


def assert_quiet(browser: webdriver.Chrome) -> None:
    """No error in the page's script, and nothing wider than the window."""
    assert [entry["message"] for entry in browser.get_log("browser")] == []
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


def test_runs_lie_over_each_other_and_say_their_numbers(browser, tmp_path):
    evaluated = {"eval_default_pass1": 0.25}
    first = write_run(tmp_path / "first", [row(0, **evaluated), *(row(step) for step in range(1, 5))])
    second = write_run(tmp_path / "second", [row(step, **{"rollout/reward_mean": 0.7}) for step in range(1, 4)])
    show(browser, tmp_path, first, second)
    summary = [" ".join(text.split()) for text in texts(browser, "#summary tr")]
    assert summary[1:] == ["first 4 45 s 0 → 0.4 0.25 → 0.25", "second 3 27 s 0.7 → 0.7 -"]
    assert texts(browser, "#curves h3 .name")[:2] == ["rollout/reward_mean", "eval_default_pass1"]
    lines = "#curves .chart:first-child polyline.curve"
    points = [element.get_attribute("points").split() for element in browser.find_elements(By.CSS_SELECTOR, lines)]
    assert [len(each) for each in points] == [5, 3]
    heights = [float(point.partition(",")[2]) for point in points[0]]
    assert heights == sorted(heights, reverse=True)  # rewards rise from 0 to 0.4
    # The middle of the picture is near step 2 of 0 to 4.
    name, *values = hover(browser, "#curves .chart:first-child svg")
    assert name == "rollout/reward_mean"
    assert [value.strip() for value in values] == ["first, step 2: 0.2", "second, step 2: 0.7"]

    browser.find_element(By.CSS_SELECTOR, "[type=search]").send_keys("PPO")
    assert texts(browser, "#curves h3 .name") == ["timing/ppo_train"]
    # 3 + 5 of 9 seconds are known; scoring runs beside generation and is no phase of its own.
    assert texts(browser, "#timing .card:first-child .key") == ["generation 33%", "ppo_train 56%", "other 11%"]
    assert hover(browser, "#timing .card:first-child g:nth-of-type(3) rect")[0] == "step 2"
    assert browser.find_elements(By.ID, "ledger-section") == []
    assert texts(browser, "#rollouts") == ["No rollouts were stored."]
    assert_quiet(browser)


def test_tokens_are_coloured_by_what_is_asked(browser, tmp_path):
    states = {"ledger/trained": 8.0, "ledger/filtered": 2.0, "ledger/in_flight": 4.0, "ledger/drawn_total": 14.0}
    two = [segment(), segment(advantages=[0.0, 1.0, 1.0, 1.0])]
    samples = [
        sample(1, 0),
        sample(2, 0),
        sample(2, 1, segments=two, status="ungraded", reward=None, reason="no grader"),
    ]
    show(browser, tmp_path, write_run(tmp_path / "run", [row(1, **states), row(2, **states)], samples))
    assert texts(browser, "#ledger .key") == ["trained 8", "filtered 2", "in flight 4"]

    assert texts(browser, ".list button span") == ["2:0/0", "2:0/1"]  # the newest step
    facts = " ".join(" ".join(texts(browser, ".detail dl > div")).split())
    assert facts == ("reward 0 shaped reward -0.25 score 0 status graded label forty two truncated no format 0.5")
    assert texts(browser, ".tokens span") == ["t5 ", "t6 ", "t7 ", "t8 "]
    alphas = [alpha for *_, alpha in backgrounds(browser)]
    assert alphas[0] == 0
    assert alphas[1] == alphas[2] > 2 * alphas[3] > 0  # the last token was sampled but not trained on

    choose(browser, "colour by", "advantage")
    given, high, low, small = backgrounds(browser)
    assert given[3] == 0
    assert high[2] > high[0]  # blue: 2.0, the largest, so it has the full colour
    assert low[0] > low[2]  # orange: -1.0
    assert high[3] == pytest.approx(2 * low[3], rel=0.05)
    assert high[3] == pytest.approx(4 * small[3], rel=0.05)

    choose(browser, "colour by", "mismatch")
    _, same, higher, lower = backgrounds(browser)  # differences 0, 0.1 and -0.2
    assert same[3] == pytest.approx(0, abs=0.01)
    assert higher[2] > higher[0]
    assert lower[0] > lower[2]
    assert lower[3] == pytest.approx(2 * higher[3], rel=0.05)
    assert hover(browser, ".tokens span:nth-child(4)") == [
        "token 3, id 8", "policy version 4, not trained on", "log-probability -0.1", "trainer's -0.3", "advantage 0.5",
    ]  # fmt: skip

    browser.find_elements(By.CSS_SELECTOR, ".list button")[1].click()
    assert texts(browser, ".list small") == ["reward 0", "no verdict"]
    assert texts(browser, ".detail h4") == ["segment 1 of 2", "segment 2 of 2"]
    assert "no grader" in browser.find_element(By.CSS_SELECTOR, ".detail").text
    assert "not trained on" in browser.find_element(By.CSS_SELECTOR, ".nothing").text  # no trainer's logprobs
    choose(browser, "step", "1")
    assert texts(browser, ".list button span") == ["1:0/0"]
    assert_quiet(browser)


def test_images_are_shown_and_a_lost_one_is_told(browser, tmp_path):
    folder = write_run(
        tmp_path / "run", [row(1)], [sample(1, 0, segments=[segment(images=["a.png", "__proto__", "a.png"])])]
    )
    (folder / "rollouts" / "images").mkdir()
    (folder / "rollouts" / "images" / "a.png").write_bytes(file_of(plain("red", 1000, 500)))
    show(browser, tmp_path, folder)
    script = "return [...document.querySelectorAll('.pictures img')].map(image => [image.naturalWidth, image.alt])"
    assert browser.execute_script(script) == [[256, "image 1"], [256, "image 3"]]
    assert texts(browser, ".pictures span") == ["image 2: its file is gone or broken"]
    assert_quiet(browser)


def test_texts_are_never_markup(browser, tmp_path):
    hostile = sample(1, 0, label=ATTACK, reason=ODD, sample_id=ATTACK, extra_logs={ATTACK: 1.0})
    run = read_run(
        write_run(tmp_path / "run", [row(1, **{ATTACK: 1.0})], [hostile]), ATTACK, lambda ids: [ATTACK] * len(ids), 9
    )
    page = tmp_path / "report.html"
    page.write_text(render([run]), encoding="utf-8")
    browser.get(page.as_uri())
    assert browser.title == ATTACK
    choose(browser, "metrics", "all")
    assert ATTACK in texts(browser, "#curves h3 .name")
    assert texts(browser, ".tokens span") == [ATTACK] * 4
    assert ATTACK in texts(browser, ".detail dd")
    assert browser.find_elements(By.TAG_NAME, "img") == []
    assert_quiet(browser)


def test_broken_and_missing_data_cost_only_themselves(browser, tmp_path):
    rows: list[Any] = [row(1, **{"train/kl": None}), '{"step": 2, "rollout/re', "[1, 2]", '{"rollout/reward_mean": 1}']
    rows += ['{"step": 3, "rollout/reward_mean": NaN, "train/kl": Infinity}', row(4)]
    short = sample(1, 2, segments=[segment(logprobs=[0.0])])
    samples = [sample(1, 0, reward=math.inf), {"step": 1, "segments": [segment()]}, short, {"step": 1}]
    run = write_run(tmp_path / "broken", rows, samples)
    nothing = write_run(tmp_path / "nothing", [])
    one = write_run(tmp_path / "one", [row(1)])
    show(browser, tmp_path, run, nothing, one)
    assert texts(browser, ".note") == [
        "broken: metrics.jsonl: 2 lines could not be read",
        "broken: step_000001.jsonl.gz: 1 of 4 samples are incomplete",
    ]
    assert " ".join(texts(browser, "#summary tr")[2].split()) == "nothing 0 0 s -"
    counts = [
        len(element.get_attribute("points").split())
        for element in browser.find_elements(By.CSS_SELECTOR, "#curves .chart:first-child polyline.curve")
    ]
    assert counts == [2, 0, 1]
    for button in browser.find_elements(By.CSS_SELECTOR, ".list button"):
        button.click()
    assert texts(browser, ".list small") == ["reward -", "reward -", "reward -"]
    assert_quiet(browser)

    show(browser, tmp_path, nothing)
    assert texts(browser, ".nothing") == ["No metric to show.", "No step has been timed.", "No rollouts were stored."]
    assert_quiet(browser)


def test_ten_thousand_steps_stay_a_small_page(browser, tmp_path):
    rows = [row(step, **{"train/entropy": 1.0 if step == 5000 else 0.0}) for step in range(1, 10_001)]
    show(browser, tmp_path, write_run(tmp_path / "long", rows))
    assert browser.execute_script("return document.querySelectorAll('*').length") < 4000
    # The single peak is still there: it reaches the top of its chart.
    script = """const card = [...document.querySelectorAll('.chart')].find(c => c.innerText.startsWith('train/ent'));
        return card.querySelector('.ends').getAttribute('points').split(' ').map(p => +p.split(',')[1])"""
    heights = browser.execute_script(script)
    assert min(heights) == 8.0
    assert heights.count(8.0) == 1
    browser.set_window_size(500, 900)
    try:
        show(browser, tmp_path, tmp_path / "long")
        assert_quiet(browser)
    finally:
        browser.set_window_size(1280, 1000)
