"""The threshold explorer: what passes, and which threshold is sure, as Python has it."""

from __future__ import annotations

import numpy as np
import pytest

from report.browser.chromium import Browser
from report.browser.pages import examples
from singleshot.metrics.selective import threshold_for_accuracy
from singleshot.report.page.selection import EXPLORED


def at_threshold(name: str, threshold: float) -> dict[str, float]:
    found = examples(name)
    passes = found.confidence.numpy() >= np.float32(threshold)
    right = found.correct.numpy()
    return {
        "coverage": passes.mean(),
        "accuracy": right[passes].mean() if passes.any() else np.nan,
        "mistakes": (passes & ~right).sum(),
        "held-back": (~passes & right).sum(),
    }


def tile(browser: Browser, value: str) -> float:
    return browser.number(f"#threshold-tiles [data-value={value}]")


def typed(browser: Browser, selector: str, text: str) -> None:
    """Over what was there, which control-a selects; the tabulator leaves the field."""
    browser.find(selector).send_keys("\ue009a", "\ue000", f"{text}\t")


@pytest.mark.parametrize("threshold", [0, 0.25, 0.611, 0.9, 0.9995])
def test_the_threshold_explorer_shows_what_passes(opened: Browser, threshold: float) -> None:
    opened.set("#threshold-range", EXPLORED.index(threshold))
    assert float(opened.find("#threshold-number").get_attribute("value")) == threshold
    for name in ("sharp", "mild"):
        opened.choose("#threshold [data-picker]", name)
        for value, expected in at_threshold(name, threshold).items():
            selector = f"#threshold-tiles [data-model='{name}'][data-value={value}]"
            if np.isnan(expected):
                assert opened.find(selector).text == "–"
            else:
                assert opened.number(selector) == pytest.approx(expected, abs=1e-12)
    mistakes = int(at_threshold("mild", threshold)["mistakes"])
    assert opened.find("#threshold-all tr[data-model='mild'] td:nth-child(4)").text == f"{mistakes:,}"


def test_a_typed_threshold_moves_the_slider_and_is_shown_as_what_it_was_taken_for(opened: Browser) -> None:
    typed(opened, "#threshold-number", "0.25")
    assert opened.find("#threshold-range").get_attribute("value") == str(EXPLORED.index(0.25))
    assert tile(opened, "mistakes") == at_threshold("sharp", 0.25)["mistakes"]
    typed(opened, "#threshold-number", "0.9999")
    assert tile(opened, "coverage") == pytest.approx(at_threshold("sharp", 0.9999)["coverage"])
    typed(opened, "#threshold-number", "0.12345")
    assert opened.find("#threshold-number").get_attribute("value") == "0.123"


@pytest.mark.parametrize(
    ("start", "below", "above"), [(0, 0, 0.001), (0.5, 0.499, 0.501), (0.999, 0.998, 0.9991), (1, 0.99999, 1)]
)
def test_arrow_keys_go_to_the_next_threshold(opened: Browser, start: float, below: float, above: float) -> None:
    for key, expected in (("\ue013", above), ("\ue015", below)):  # up and down
        typed(opened, "#threshold-number", f"{start:g}")
        opened.find("#threshold-number").send_keys(key)
        assert float(opened.find("#threshold-number").get_attribute("value")) == expected
        assert opened.find("#threshold-range").get_attribute("value") == str(EXPLORED.index(expected))
        assert tile(opened, "coverage") == pytest.approx(at_threshold("sharp", expected)["coverage"])


def test_any_number_that_can_be_typed_is_valid(opened: Browser) -> None:
    for selector, text in (("#threshold-number", "0.99995"), ("#wanted", "97.125")):
        opened.find(selector).send_keys("\ue009a", "\ue000", text)
        assert opened.js("return document.querySelector(arguments[0]).checkValidity()", selector)


def test_the_certainty_is_said_to_be_for_what_was_chosen_beforehand(opened: Browser) -> None:
    answer, table = opened.column("#threshold .caution")
    assert answer.startswith("The certainty is for a model and an accuracy chosen beforehand")
    assert "takes the best of them will miss more often" in table


def test_where_nothing_passes_there_is_no_accuracy(opened: Browser) -> None:
    opened.set("#threshold-range", len(EXPLORED) - 1)
    assert opened.find("#threshold-tiles [data-value=accuracy]").text == "–"
    assert tile(opened, "coverage") == 0


@pytest.mark.parametrize("percent", [1, 60, 70.25, 83, 95, 99.9, 99.999])
def test_a_wanted_accuracy_gives_the_threshold_with_its_guarantee(opened: Browser, percent: float) -> None:
    opened.set("#wanted", percent)
    for name in ("sharp", "mild"):
        opened.choose("#threshold [data-picker]", name)
        expected = threshold_for_accuracy(examples(name), percent / 100)
        shown = opened.find("#guarantee [data-value=guarantee]").get_attribute("textContent")
        assert shown == f"{expected.message}."
        row = opened.find(f"#guarantee-all tr[data-model='{name}'] td").text
        assert row == ("none is sure" if expected.threshold is None else f"{expected.threshold:g}")
        assert len(opened.all("#try-threshold")) == (expected.threshold is not None)


@pytest.mark.parametrize("text", ["0", "100", "-3", "1e9", ""])
def test_an_accuracy_that_cannot_be_has_no_answer(opened: Browser, text: str) -> None:
    opened.set("#wanted", "10")  # which is typed on the way to 100, and easy
    assert opened.all("#try-threshold")
    opened.set("#wanted", text)
    assert opened.find("#guarantee").text == "An accuracy to ask for lies between 0 and 100 %, both excluded."
    assert opened.all("#try-threshold") == opened.all("#guarantee-all table") == []
    assert opened.find("#wanted").get_attribute("aria-invalid") == "true"
    opened.set("#wanted", "60")
    assert opened.find("#wanted").get_attribute("aria-invalid") == "false"
    assert opened.all("#guarantee-all table")


@pytest.mark.parametrize("percent", [50, 62, 70])
def test_a_guaranteed_threshold_can_be_tried_and_passes_what_it_was_found_on(opened: Browser, percent: float) -> None:
    opened.set("#wanted", percent)
    expected = threshold_for_accuracy(examples("sharp"), percent / 100)
    assert expected.threshold is not None
    opened.find("#try-threshold").click()
    assert opened.js("return document.activeElement.id") == "try-threshold"  # the focus stays where the reader is
    assert opened.number("#threshold-number") == expected.threshold
    assert tile(opened, "coverage") == pytest.approx(expected.coverage, abs=1e-12)
    assert tile(opened, "accuracy") == pytest.approx(expected.accuracy, abs=1e-12)
