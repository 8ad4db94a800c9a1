"""The page in headless Chromium, on the real service and the local sandbox."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from deepgym import DeepGym, load_environment
from deepgym.api.app import create_app
from deepgym.exceptions import SandboxError
from deepgym.models import CaseOutcome
from deepgym.registry import find_folder
from tests.deepgym_fakes import FakeGym, Run, environment, served_in_thread, verdict

PATIENCE = 60.0


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--window-size=1200,900",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))
    driver.set_page_load_timeout(PATIENCE)
    yield driver
    driver.quit()


@pytest.fixture
def serve() -> Iterator[Callable[[Any], str]]:
    """serve(app) -> address; the servers end with the test."""
    with ExitStack() as servers:
        yield lambda app: servers.enter_context(served_in_thread(app))


def text_of(browser, selector: str) -> str:
    return browser.find_element(By.CSS_SELECTOR, selector).text


def wait_for(browser, selector: str, start: str) -> str:
    """The element's text, once it starts so."""
    WebDriverWait(browser, PATIENCE, 0.1).until(lambda b: text_of(b, selector).startswith(start))
    return text_of(browser, selector)


def choose(browser, name: str) -> None:
    button = f"#environments button[data-name={name}]"
    WebDriverWait(browser, PATIENCE, 0.1).until(lambda b: b.find_elements(By.CSS_SELECTOR, button))
    browser.find_element(By.CSS_SELECTOR, button).click()


def paste(browser, text: str) -> None:
    browser.execute_script("document.getElementById('answer').value = arguments[0]", text)


def complaints(browser) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def test_a_person_reads_a_verdict_case_by_case(browser, serve):
    names = ("bracket_error", "coin_change")
    with DeepGym(mode="local") as dg:
        environments = [load_environment(name) for name in names]
        browser.get(serve(create_app(dg, environments, infra_failure_score="nan")))
        choose(browser, "coin_change")
        assert text_of(browser, "#title") == environments[1].title
        assert " ".join(text_of(browser, "#text").split()) == " ".join(environments[1].task.split())

        paste(browser, f"So:\n```python\n{find_folder('coin_change').reference()}\n```\n")
        browser.find_element(By.ID, "run").click()
        assert wait_for(browser, "#summary", "Passed") == "Passed, score 1.000"
        rows = browser.find_elements(By.CSS_SELECTOR, "#cases tbody tr")
        assert len(rows) > 5
        assert {row.find_elements(By.TAG_NAME, "td")[1].text for row in rows} == {"passed"}

        paste(browser, "def coin_change(coins, amount):\n    raise ValueError('<b>no</b>')")
        browser.find_element(By.ID, "answer").send_keys(Keys.CONTROL, Keys.ENTER)
        assert wait_for(browser, "#summary", "Failed") == "Failed, score 0.000"
        assert "solution_error" in text_of(browser, "#message")
        assert "<b>no</b>" in text_of(browser, "#cases")  # shown as text, not as markup

        browser.find_element(By.ID, "filter").send_keys("bracket")
        listed = browser.find_elements(By.CSS_SELECTOR, "#environments button")
        assert [button.get_attribute("data-name") for button in listed] == ["bracket_error"]
        listed[0].click()
        assert not browser.find_element(By.ID, "verdict").is_displayed()
        browser.find_element(By.ID, "filter").send_keys("zzz")
        assert browser.find_element(By.ID, "none").is_displayed()
    assert complaints(browser) == []


def test_no_verdict_and_hostile_text(browser, serve):
    """Neither a task nor a verdict can run script in the page."""
    attack = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
    cases = (CaseOutcome(attack, False, 0.0, detail=attack),)
    gym = FakeGym({"attack": [Run(verdict(0.5, cases=cases))], "broken": [Run(SandboxError("gone"))]})
    browser.get(serve(create_app(gym, [environment(title=attack, task=attack)], infra_failure_score="nan")) + "#add")
    assert wait_for(browser, "#text", "<img") == attack

    paste(browser, "attack")
    browser.find_element(By.ID, "run").click()
    assert wait_for(browser, "#summary", "Failed") == "Failed, score 0.500"
    assert attack in text_of(browser, "#cases")

    paste(browser, "broken")
    browser.find_element(By.ID, "run").click()
    wait_for(browser, "#summary", "No verdict")
    assert "sandbox_error" in text_of(browser, "#message")
    assert not browser.find_element(By.ID, "cases").is_displayed()
    assert browser.title == "deepgym"
    assert complaints(browser) == []


def test_a_narrow_window_needs_no_sideways_scrolling(browser, serve):
    address = serve(create_app(FakeGym(), [environment(task="x" * 500)], infra_failure_score="nan"))
    browser.set_window_size(500, 800)
    browser.get(address + "#add")
    wait_for(browser, "#text", "xxx")
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    browser.set_window_size(1200, 900)
