"""The report page in a real Chromium: it works, keeps to itself, and its numbers are those Python computes."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from singleshot.metrics import Calibration
from singleshot.metrics.examples import Examples
from singleshot.metrics.selective import threshold_for_accuracy
from singleshot.report.page import Subject, subject_of_file, write_page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
NO_BROWSER = "no browser: the report page is tested where Debian's packages chromium and chromium-driver are installed"
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER) and not os.environ.get("SINGLESHOT_NEEDS_BROWSER"), reason=NO_BROWSER
)

HOSTILE = "<script>alert(1)</script>"
BREAKOUT = '"><img src=x onerror=alert(2)>'
NAMES = [HOSTILE, BREAKOUT, "a class with a rather long name, of which somebody may be proud", *map(str, range(3, 8))]
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
)  # fmt: skip
SECTIONS = (
    "verdicts", "metrics", "comparisons", "reliability", "histogram", "threshold", "curves", "passes", "classes",
    "confusions", "gallery", "training", "recipe",
)  # fmt: skip
DEADLINE = 20

Logits = NDArray[np.float32]
Labels = NDArray[np.int64]


def predictions(seed: int, sharpness: float) -> tuple[Logits, Labels]:
    labels = np.random.default_rng(0).integers(0, len(NAMES), 700)
    logits = np.random.default_rng(seed).normal(size=(len(labels), len(NAMES)))
    logits[np.arange(len(labels)), labels] += 1.5
    return (logits * sharpness).astype(np.float32), labels


def seventeen_of_thirty_two() -> tuple[Logits, Labels]:
    """Right in 17/32 = 0.53125: Python rounds this tie to the even 0.5312."""
    logits = np.zeros((32, len(NAMES)), np.float32)
    logits[:, 1] = 3
    return logits, np.array([1] * 17 + [2] * 15)


MODELS = {"sharp": predictions(1, 2.5), "mild": predictions(2, 1.0), "<b>small & bold</b>": seventeen_of_thirty_two()}


def picture() -> str:
    out = io.BytesIO()
    Image.new("RGB", (8, 8), "teal").save(out, "png")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def with_extras(subject: Subject) -> Subject:
    """What only a run has."""
    shot = {"image": picture(), "label": HOSTILE, "predicted": BREAKOUT, "confidence": 0.75, "index": 7}
    epoch = {"loss": 1.5, "train_accuracy": 0.5, "accuracy": 0.4, "ece": None, "nll": 1.25, "split": "validation"}
    return replace(
        subject,
        gallery={"mistakes": [shot], "hits": [shot]},
        passes={
            "samples": 5, "lower": [0.0, 0.1, 0.2], "upper": [0.1, 0.2, 0.3], "count": [4, 0, 2],
            "accuracy": [1.0, None, 0.5], "score": [0.875, None, 0.5], "coverage": [0.66, 0.66, 1.0],
        },
        training=[{"epoch": number, **epoch} for number in (1, 2, 3)],
        recipe={"loss": HOSTILE, "epochs": 3},
        environment={"torch": "2.13.0"},
    )  # fmt: skip


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    subjects = []
    for index, (name, (logits, labels)) in enumerate(MODELS.items()):
        file = folder / f"{index}.npz"
        np.savez(file, logits=logits, labels=labels, class_names=np.array(NAMES))
        subject = subject_of_file(file, name=name, replicates=20)
        subjects.append(subject if index else with_extras(subject))
    path = folder / "report.html"
    write_page(subjects, path, title=f"Report of {HOSTILE}", replicates=20)
    return path


class Browser:
    """A page in Chromium: what the tests do with it, in words."""

    def __init__(self, profile: Path) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))

    def open(self, page: Path) -> None:
        self.emulate(width=1400)
        self.log("browser"), self.log("performance")  # what came before is of other tests
        self.driver.get(page.as_uri())
        self.wait("return 'ready' in document.documentElement.dataset")

    def emulate(self, width: int = 1400, **media: Any) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    def log(self, kind: str) -> list[dict[str, Any]]:
        return list(self.driver.get_log(kind))  # type: ignore[no-untyped-call]

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, DEADLINE).until(lambda _: self.js(script))

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def set(self, selector: str, value: object, event: str = "input") -> None:
        """As a user's hand would: a value, and the event of the change."""
        script = "const it = document.querySelector(arguments[0]); it.value = arguments[1];"
        self.js(script + "it.dispatchEvent(new Event(arguments[2], {bubbles: true}))", selector, str(value), event)

    def choose(self, selector: str, text: str) -> None:
        from selenium.webdriver.support.ui import Select

        Select(self.find(selector)).select_by_visible_text(text)

    def number(self, selector: str) -> float:
        return float(self.find(selector).get_attribute("value"))

    def column(self, selector: str) -> list[str]:
        return [one.text for one in self.all(selector)]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not (CHROMIUM and DRIVER):
        pytest.fail(NO_BROWSER)  # where one must be there, as .ci/run says
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.driver.quit()


@pytest.fixture
def opened(browser: Browser, page: Path) -> Browser:
    browser.open(page)
    return browser


def examples(name: str) -> Examples:
    logits, labels = MODELS[name]
    return Examples.of(logits=torch.tensor(logits), labels=torch.tensor(labels))


def test_nothing_is_logged_and_no_request_leaves_the_page(opened: Browser) -> None:
    opened.js("scrollTo(0, document.body.scrollHeight)")
    for details in opened.all("details"):
        opened.js("arguments[0].open = true", details)
    messages = [json.loads(entry["message"])["message"] for entry in opened.log("performance")]
    urls = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    assert any(url.startswith("file:") for url in urls)  # the log does log
    assert [url for url in urls if not url.startswith(("file:", "data:"))] == []
    assert sum(url.startswith("file:") for url in urls) == 1
    assert opened.log("browser") == []


def test_every_section_is_there_and_drawn(opened: Browser) -> None:
    assert [one.get_attribute("id") for one in opened.all("main > section")] == list(SECTIONS)
    assert all(opened.find(f"#{section}").is_displayed() for section in SECTIONS)
    assert len(opened.all("svg[role=img]")) == 3 + 3 + 1 + 2 + 1 + 3  # ECE was not recorded, so three training curves
    assert all(one.get_attribute("aria-label") for one in opened.all("svg[role=img]"))


@pytest.mark.parametrize("bins", [5, 12, 25, 100])
def test_the_bins_slider_gives_the_errors_of_so_many_bins(opened: Browser, bins: int) -> None:
    choices = opened.js("return JSON.parse(document.querySelector('#data').textContent).bin_choices")
    opened.set("#bins", choices.index(bins))
    assert opened.find("#bins-number").text == str(bins)
    for name, (logits, labels) in MODELS.items():
        calibration = Calibration(bins=bins)
        calibration.update(logits=torch.tensor(logits), labels=torch.tensor(labels))
        result = calibration.compute()
        for value, expected in (("ece", result.ece), ("mce", result.mce)):
            selector = f"#reliability [data-model='{name}'][data-value={value}]"
            # the page has its confidences as float32 where the logits are
            assert opened.number(selector) == pytest.approx(expected, abs=1e-8)
            assert opened.find(selector).text == f"{expected:.4f}"


def test_the_bins_slider_moves_by_key(opened: Browser) -> None:
    opened.find("#bins").send_keys("\ue014")  # the right arrow
    assert opened.find("#bins-number").text == "24"
    assert opened.find("#bins").get_attribute("aria-valuetext") == "24 bins"
    assert "sharp: ECE" in opened.find("#bins-spoken").get_attribute("textContent")


def at_threshold(name: str, threshold: float) -> dict[str, float]:
    found = examples(name)
    passes = found.confidence.numpy() > np.float32(threshold)
    right = found.correct.numpy()
    return {
        "coverage": passes.mean(),
        "accuracy": right[passes].mean(),
        "mistakes": (passes & ~right).sum(),
        "held-back": (~passes & right).sum(),
    }


@pytest.mark.parametrize("edge", [0, 300, 733, 1080])
def test_the_threshold_explorer_shows_what_passes(opened: Browser, edge: int) -> None:
    opened.set("#threshold-range", edge)
    assert float(opened.find("#threshold-number").get_attribute("value")) == pytest.approx(edge / 1200, abs=5e-5)
    for name in ("sharp", "mild"):
        opened.choose("#threshold [data-picker]", name)
        for value, expected in at_threshold(name, edge / 1200).items():
            selector = f"#threshold-tiles [data-model='{name}'][data-value={value}]"
            assert opened.number(selector) == pytest.approx(expected, abs=1e-12)
    mistakes = int(at_threshold("mild", edge / 1200)["mistakes"])
    assert opened.find("#threshold-all tr[data-model='mild'] td:nth-child(4)").text == f"{mistakes:,}"


def test_a_typed_threshold_moves_the_slider_and_one_that_nothing_passes_has_no_accuracy(opened: Browser) -> None:
    opened.find("#threshold-number").send_keys(
        "\ue009a", "\ue000", "0.25\t"
    )  # over what was there, which control-a selects
    assert opened.find("#threshold-range").get_attribute("value") == "300"
    assert opened.number("#threshold-tiles [data-value=mistakes]") == at_threshold("sharp", 0.25)["mistakes"]
    opened.set("#threshold-range", 1200)
    assert opened.find("#threshold-tiles [data-value=accuracy]").text == "–"
    assert opened.number("#threshold-tiles [data-value=coverage]") == 0


@pytest.mark.parametrize("wanted", [0.6, 0.95, 0.999])
def test_a_wanted_accuracy_gives_the_threshold_with_its_guarantee(opened: Browser, wanted: float) -> None:
    opened.set("#wanted", wanted, "change")
    for name in ("sharp", "mild"):
        opened.choose("#threshold [data-picker]", name)
        expected = threshold_for_accuracy(examples(name), wanted)
        shown = opened.find("#guarantee [data-value=guarantee]").get_attribute("textContent")
        assert shown == expected.message
        row = opened.find(f"#guarantee-all tr[data-model='{name}'] td").text
        assert row == ("none is sure" if expected.threshold is None else f"{expected.threshold:g}")
        assert len(opened.all("#try-threshold")) == (expected.threshold is not None)


def test_a_guaranteed_threshold_can_be_tried(opened: Browser) -> None:
    opened.set("#wanted", 0.7, "change")
    expected = threshold_for_accuracy(examples("sharp"), 0.7).threshold
    assert expected is not None
    opened.find("#try-threshold").click()
    assert opened.js("return document.activeElement.id") == "try-threshold"  # the focus stays where the reader is
    assert opened.number("#threshold-number") == pytest.approx(expected, abs=1 / 1200)


def test_models_can_be_switched(opened: Browser) -> None:
    assert len(opened.all("#reliability figure")) == 3
    opened.choose("#shown", "mild")
    (figure,) = opened.all("#reliability figure")
    assert figure.get_attribute("data-model") == "mild"
    assert len(opened.all("#histogram figure")) == 1
    opened.choose("#classes [data-picker]", "mild")
    assert opened.find("#threshold-tiles data").get_attribute("data-model") == "mild"
    assert opened.find("#gallery [data-picker]").get_attribute("value") == "0"  # the only one with images
    assert len(opened.all("#gallery img")) == 2


def test_a_legend_hides_and_shows_curves(opened: Browser) -> None:
    assert len(opened.all("#curves .model-line")) == 6
    button = opened.find("#curves .legend button[data-model=mild]")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert len(opened.all("#curves .model-line")) == 4
    button.send_keys(" ")
    assert len(opened.all("#curves .model-line")) == 6


def test_the_metrics_are_those_of_python_to_the_last_digit_shown(opened: Browser) -> None:
    for name, (logits, labels) in MODELS.items():
        calibration = Calibration(bins=20)
        calibration.update(logits=torch.tensor(logits), labels=torch.tensor(labels))
        for metric, expected in calibration.compute().metrics().items():
            shown = opened.find(f"#metrics tr[data-model='{name}'] [data-metric={metric}]")
            assert shown.text == f"{expected:.4f}", (name, metric)
    assert opened.find("#metrics tr[data-model^='<b>'] [data-metric=accuracy]").text == "0.5312"


def test_a_table_sorts_by_click_and_by_key(opened: Browser) -> None:
    accuracies = {name: float(examples(name).correct.double().mean()) for name in MODELS}
    ascending = sorted(accuracies, key=lambda name: accuracies[name])
    head = "#metrics th:nth-child(2)"
    rows = "return [...document.querySelectorAll('#metrics tbody tr')].map((row) => row.dataset.model)"
    opened.find(f"{head} button").click()
    assert opened.find(head).get_attribute("aria-sort") == "descending"
    assert opened.js(rows) == ascending[::-1]
    opened.find(f"{head} button").send_keys("\ue007")  # enter
    assert opened.find(head).get_attribute("aria-sort") == "ascending"
    assert opened.js(rows) == ascending
    opened.find("#metrics th:nth-child(1) button").send_keys(" ")
    assert opened.js(rows) == sorted(MODELS)
    assert opened.find(head).get_attribute("aria-sort") == "none"


def test_an_infinite_metric_is_the_worst(browser: Browser, tmp_path: Path) -> None:
    subjects = []
    for name, sure in (("all too sure", 1.0), ("sure", 0.9)):
        np.savez(tmp_path / "p.npz", probs=[[sure, 1 - sure]] * 40, labels=[0] * 39 + [1])
        subjects.append(subject_of_file(tmp_path / "p.npz", name=name, replicates=20))
    write_page(subjects, tmp_path / "page.html", title="Two", replicates=20)
    browser.open(tmp_path / "page.html")
    assert browser.column("#metrics [data-metric=nll]")[0] == "∞"
    data = browser.js("return JSON.parse(document.querySelector('#data').textContent)")
    columns = [metric["name"] for metric in data["metrics"]]
    head = f"#metrics th:nth-child({columns.index('nll') + 2}) button"
    rows = "return [...document.querySelectorAll('#metrics tbody tr')].map((row) => row.dataset.model)"
    browser.find(head).click()
    assert browser.js(rows) == ["sure", "all too sure"]
    browser.find(head).click()
    assert browser.js(rows) == ["all too sure", "sure"]
    assert len(browser.all("#metrics tr[data-model=sure] .best [data-metric=nll]")) == 1


def test_a_table_stays_sorted_while_the_threshold_moves(opened: Browser) -> None:
    head = "#threshold-all th:nth-child(2)"
    opened.find(f"{head} button").click()
    opened.set("#threshold-range", 600)
    assert opened.find(head).get_attribute("aria-sort") == "descending"
    shares = [float(text.removesuffix(" %")) for text in opened.column("#threshold-all td:nth-child(2)")]
    assert len(shares) == len(MODELS)
    assert shares == sorted(shares, reverse=True)


def test_classes_are_found_by_a_part_of_their_name(opened: Browser) -> None:
    opened.find("#class-filter").send_keys("PROUD")
    left = [row.get_attribute("data-class") for row in opened.all("#classes tr[data-class]") if row.is_displayed()]
    assert left == [NAMES[2]]
    assert opened.find("#class-count").text == f"1 of {len(NAMES)} found"


def test_hostile_names_show_as_text_and_no_dialog_opens(opened: Browser) -> None:
    from selenium.common.exceptions import NoAlertPresentException

    assert opened.find("h1").text == f"Report of {HOSTILE}"
    assert {HOSTILE, BREAKOUT} <= set(opened.column("#classes tbody th"))
    assert opened.find("#gallery figcaption strong").get_attribute("textContent") == BREAKOUT
    assert "<b>small & bold</b>" in opened.column("#verdicts .model-name")
    assert HOSTILE in opened.find("#recipe .facts").get_attribute("textContent")
    assert opened.js("return document.scripts.length") == 2  # the data and the page's own
    with pytest.raises(NoAlertPresentException):
        _ = opened.driver.switch_to.alert.text


def test_no_script_or_style_but_the_pages_own_is_let_in(opened: Browser) -> None:
    opened.js("""
      const image = document.createElement("img");
      image.setAttribute("onerror", "window.ran = 'onerror'");
      image.addEventListener("error", () => { window.failed = true; });
      image.src = "x.png";
      const script = document.createElement("script");
      script.textContent = "window.ran = 'script'";
      const style = document.createElement("style");
      style.textContent = "h1 { display: none }";
      document.body.append(image, script, style);
    """)
    opened.wait("return window.failed")  # so the handler had its chance
    assert opened.js("return window.ran") is None
    assert opened.find("h1").is_displayed()
    assert all("Content Security Policy" in entry["message"] for entry in opened.log("browser"))


def background(browser: Browser) -> str:
    return str(browser.js("return getComputedStyle(document.documentElement).backgroundColor"))


def test_the_dark_is_the_readers_choice(opened: Browser) -> None:
    light = background(opened)
    opened.find("#theme").click()
    dark = background(opened)
    assert dark != light
    opened.find("#theme").click()
    assert background(opened) == light


def test_the_dark_follows_the_system(browser: Browser, page: Path) -> None:
    browser.open(page)
    light = background(browser)
    browser.emulate(features=[{"name": "prefers-color-scheme", "value": "dark"}])
    dark = background(browser)
    assert dark != light
    browser.find("#theme").click()
    assert background(browser) == light


@pytest.mark.parametrize("width", [320, 375, 1400])
def test_nothing_but_tables_scrolls_sideways(opened: Browser, width: int) -> None:
    opened.emulate(width=width)
    # Charts are drawn anew for the width there is.
    opened.wait(f"return document.querySelector('#reliability .chart').getBoundingClientRect().right <= {width}")
    assert opened.js("return document.documentElement.scrollWidth") <= width


def test_the_keyboard_reaches_every_control_and_the_focus_is_seen(opened: Browser) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    seen = set()
    for _ in range(120):
        ActionChains(opened.driver).send_keys("\ue004").perform()  # tab
        seen.add(opened.js("return document.activeElement.id || document.activeElement.className"))
        if "threshold-range" in seen:
            break
    assert {"theme", "shown", "bins", "log", "threshold-range"} <= seen
    assert opened.js("return getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_on_paper_every_section_is_shown_in_light_colours_without_controls(opened: Browser) -> None:
    opened.find("#theme").click()
    opened.emulate(media="print")
    opened.js("dispatchEvent(new Event('beforeprint'))")
    assert background(opened) == "rgb(255, 255, 255)"
    assert all(opened.find(f"#{section} .body, #{section} .split").is_displayed() for section in SECTIONS)
    assert [one for one in opened.all(".controls, nav, #theme") if one.is_displayed()] == []
    assert all(one.is_displayed() for one in opened.all("#recipe pre"))
    assert "Model: sharp" in opened.column(".only-paper")
    pdf = base64.b64decode(opened.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.startswith(b"%PDF")


def test_without_scripts_the_verdicts_are_there(browser: Browser, page: Path) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.driver.get(page.as_uri())
        assert browser.column("#verdicts dt") == list(MODELS)
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
