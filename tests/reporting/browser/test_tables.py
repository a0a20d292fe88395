"""Tables show the numbers of Python, and can be sorted and filtered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from reporting.browser.chromium import Browser
from reporting.browser.pages import MODELS, NAMES, examples
from singleshot.metrics import Calibration
from singleshot.reporting.page import file_report, write_page


def test_metrics_match_python_in_every_digit(opened: Browser) -> None:
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
    reports = []
    for name, sure in (("certain", 1.0), ("sure", 0.9)):
        np.savez(tmp_path / "p.npz", probs=[[sure, 1 - sure]] * 40, labels=[0] * 39 + [1])
        reports.append(file_report(tmp_path / "p.npz", name=name, replicates=20))
    write_page(reports, tmp_path / "page.html", title="Two", replicates=20)
    browser.open(tmp_path / "page.html")
    assert browser.column("#metrics [data-metric=nll]")[0] == "∞"
    data = browser.js("return JSON.parse(document.querySelector('#data').textContent)")
    columns = [metric["name"] for metric in data["metrics"]]
    head = f"#metrics th:nth-child({columns.index('nll') + 2}) button"
    rows = "return [...document.querySelectorAll('#metrics tbody tr')].map((row) => row.dataset.model)"
    browser.find(head).click()
    assert browser.js(rows) == ["sure", "certain"]
    browser.find(head).click()
    assert browser.js(rows) == ["certain", "sure"]
    assert len(browser.all("#metrics tr[data-model=sure] .best [data-metric=nll]")) == 1


def test_only_models_with_the_same_examples_are_ranked(opened: Browser) -> None:
    starred = {row.get_attribute("data-model") for row in opened.all("#metrics tr:has(.star)")}
    assert starred == {"sharp", "mild"}  # the third model has other examples
    assert "not predictions for the same examples" in opened.find("#comparisons .notes").text


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
