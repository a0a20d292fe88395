"""Tables show the numbers of Python, and can be sorted and filtered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from reporting.browser.chromium import Browser
from reporting.browser.pages import MODELS, NAMES, examples
from singleshot.metrics import Calibration
from singleshot.reporting.page import file_report, write_page


def test_metrics_match_python_in_every_digit(opened: Browser) -> None:
    opened.find("#all-metrics").click()
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


def write_models(folder: Path, models: dict[str, dict[str, Any]]) -> Path:
    """Write a page about files with these arrays."""
    reports = []
    for name, arrays in models.items():
        np.savez(folder / "p.npz", **arrays)
        reports.append(file_report(folder / "p.npz", name=name, replicates=100))
    write_page(reports, folder / "page.html", title="Models", replicates=100)
    return folder / "page.html"


def stars(browser: Browser) -> set[tuple[str, str]]:
    """Model and metric of every star."""
    script = """return [...document.querySelectorAll("#metrics .best [data-metric]")]
      .map((it) => [it.closest("tr").dataset.model, it.dataset.metric])"""
    return {(model, metric) for model, metric in browser.js(script)}


def test_an_infinite_metric_is_the_worst(browser: Browser, tmp_path: Path) -> None:
    labels = [0] * 39 + [1]
    models = {name: {"probs": [[p, 1 - p]] * 40, "labels": labels} for name, p in (("certain", 1.0), ("sure", 0.9))}
    browser.open(write_models(tmp_path, models))
    assert browser.column("#metrics [data-metric=nll]")[0] == "∞"
    data = browser.js("return JSON.parse(document.querySelector('#data').textContent)")
    columns = [metric["name"] for metric in data["metrics"] if metric["main"]]
    head = f"#metrics th:nth-child({columns.index('nll') + 2}) button"
    rows = "return [...document.querySelectorAll('#metrics tbody tr')].map((row) => row.dataset.model)"
    browser.find(head).click()
    assert browser.js(rows) == ["sure", "certain"]
    browser.find(head).click()
    assert browser.js(rows) == ["certain", "sure"]
    assert ("sure", "nll") in stars(browser)


def test_a_star_needs_a_difference_beyond_chance(browser: Browser, opened: Browser, tmp_path: Path) -> None:
    assert stars(opened) == set()  # two models with equally large errors; the third has other examples
    assert "not predictions for the same examples" in opened.find("#comparisons .notes").text
    random = np.random.default_rng(0)
    logits = random.normal(size=(2000, 5)) * 2
    labels = (logits + random.gumbel(size=logits.shape)).argmax(1)
    twins = {f"twin {k}": {"logits": logits + random.normal(size=logits.shape) / 50, "labels": labels} for k in (1, 2)}
    browser.open(write_models(tmp_path, twins))
    browser.find("#all-metrics").click()
    assert stars(browser) == set()
    sharper = {"logits": logits * 3, "labels": labels}
    browser.open(write_models(tmp_path, {"sharper": sharper, "good": {"logits": logits, "labels": labels}}))
    browser.find("#all-metrics").click()
    assert stars(browser) == {("good", "ece"), ("good", "nll"), ("good", "brier")}  # not the MCE, nor the equal AURC
    browser.open(write_models(tmp_path, {"sharper": sharper, **twins}))
    assert stars(browser) == set()  # the best is not better than its twin


def test_few_columns_at_first_and_all_after_a_click(opened: Browser) -> None:
    main = ["Model", "Accuracy", "ECE", "NLL", "Brier", "AURC"]
    assert opened.column("#metrics thead th") == main
    fits = "const it = document.querySelector('#metrics .scroll'); return it.scrollWidth <= it.clientWidth"
    assert opened.js(fits)
    button = opened.find("#all-metrics")
    assert (button.text, button.get_attribute("aria-expanded")) == ("Show all 14 metrics", "false")
    button.click()
    assert len(opened.column("#metrics thead th")) == 15
    button = opened.find("#all-metrics")
    assert (button.text, button.get_attribute("aria-expanded")) == ("Show fewer metrics", "true")
    button.send_keys("\ue007")  # enter
    assert opened.column("#metrics thead th") == main


def test_the_ece_is_on_the_screen_of_a_phone(opened: Browser) -> None:
    for width in (390, 360):
        opened.emulate(width=width)
        right = "return document.querySelector('#metrics [data-metric=ece]').getBoundingClientRect().right"
        assert 0 < opened.js(right) <= width - 14


def test_the_bins_slider_moves_the_table_with_the_diagrams(opened: Browser) -> None:
    choices = opened.js("return JSON.parse(document.querySelector('#data').textContent).bin_choices")
    opened.find("#all-metrics").click()
    assert opened.all("#bins-note") == []
    opened.set("#bins", choices.index(8))
    for name, (logits, labels) in MODELS.items():
        calibration = Calibration(bins=8)
        calibration.update(logits=torch.tensor(logits), labels=torch.tensor(labels))
        expected = calibration.compute().metrics()
        row = f"#metrics tr[data-model='{name}']"
        for metric in ("ece", "mce", "rmsce", "overconfidence", "underconfidence", "accuracy", "nll"):
            assert opened.find(f"{row} [data-metric={metric}]").text == f"{expected[metric]:.4f}", (name, metric)
        diagram = f"#reliability [data-model='{name}'][data-value=ece]"
        assert opened.find(diagram).text == opened.find(f"{row} [data-metric=ece]").text
        assert opened.all(f"{row} td:has([data-metric=ece]) .interval") == []  # the interval is for 20 bins
        assert opened.all(f"{row} [data-metric=adaptive_ece]") == []
        assert len(opened.all(f"{row} td:has([data-metric=nll]) .interval")) == 1
    assert "are for 8 bins, as in the diagrams" in opened.find("#bins-note").text
    assert "singleshot report --bins 8" in opened.find("#bins-note").text
    opened.set("#bins", choices.index(20))
    assert opened.all("#bins-note") == []
    assert len(opened.all("#metrics td:has([data-metric=ece]) .interval")) == len(MODELS)


def test_intervals_contain_their_estimate(opened: Browser) -> None:
    models = opened.js("return JSON.parse(document.querySelector('#data').textContent).models")
    for model in models:
        for name, found in model["metrics"].items():
            assert found["low"] <= found["estimate"] <= found["high"], (model["name"], name)


def test_a_table_stays_sorted_while_the_threshold_moves(opened: Browser) -> None:
    head = "#threshold-all th:nth-child(2)"
    opened.find(f"{head} button").click()
    opened.set("#threshold-range", 500)
    assert opened.find(head).get_attribute("aria-sort") == "descending"
    shares = [float(text.removesuffix(" %")) for text in opened.column("#threshold-all td:nth-child(2)")]
    assert len(shares) == len(MODELS)
    assert shares == sorted(shares, reverse=True)


def test_classes_are_filtered_by_name(opened: Browser) -> None:
    opened.find("#class-filter").send_keys("PROUD")
    left = [row.get_attribute("data-class") for row in opened.all("#classes tr[data-class]") if row.is_displayed()]
    assert left == [NAMES[2]]
    assert opened.find("#class-count").text == f"1 of {len(NAMES)} found"
