"""The threshold explorer shows the numbers that Python computes."""

from __future__ import annotations

import numpy as np
import pytest

from reporting.browser.chromium import Browser
from reporting.browser.pages import examples
from singleshot.metrics.selective import threshold_for_accuracy
from singleshot.reporting.page.content import EXPLORED

UP, DOWN = "\ue013", "\ue015"


def at_threshold(name: str, threshold: float) -> dict[str, float]:
    found = examples(name)
    accepted = found.confidence.numpy() >= np.float32(threshold)
    right = found.correct.numpy()
    return {
        "coverage": accepted.mean(),
        "accuracy": right[accepted].mean() if accepted.any() else np.nan,
        "mistakes": (accepted & ~right).sum(),
        "rejected": (~accepted & right).sum(),
    }


def tile(browser: Browser, value: str) -> float:
    return browser.number(f"#threshold-tiles [data-value={value}]")


def type_over(browser: Browser, selector: str, text: str) -> None:
    """Select the old text with control-a, type, and leave the field with tab."""
    browser.find(selector).send_keys("\ue009a", "\ue000", f"{text}\t")


def test_the_tiles_show_what_a_threshold_accepts(opened: Browser) -> None:
    for threshold in (0, 0.25, 0.9, 0.9995, 1):
        opened.set("#threshold-range", EXPLORED.index(threshold))
        assert opened.number("#threshold-number") == threshold
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


def test_a_typed_threshold_moves_the_slider_and_is_rounded_to_an_explored_one(opened: Browser) -> None:
    type_over(opened, "#threshold-number", "0.25")
    assert opened.find("#threshold-range").get_attribute("value") == str(EXPLORED.index(0.25))
    assert tile(opened, "mistakes") == at_threshold("sharp", 0.25)["mistakes"]
    type_over(opened, "#threshold-number", "0.9999")
    assert tile(opened, "coverage") == pytest.approx(at_threshold("sharp", 0.9999)["coverage"])
    type_over(opened, "#threshold-number", "0.12345")
    assert opened.find("#threshold-number").get_attribute("value") == "0.123"
    for selector, text in (("#threshold-number", "0.99995"), ("#target", "97.125")):
        opened.find(selector).send_keys("\ue009a", "\ue000", text)
        assert opened.js("return document.querySelector(arguments[0]).checkValidity()", selector)


def test_arrow_keys_move_to_the_next_threshold(opened: Browser) -> None:
    for start, below, above in ((0, 0, 0.001), (0.5, 0.499, 0.501), (0.999, 0.998, 0.9991), (1, 0.99999, 1)):
        for key, expected in ((UP, above), (DOWN, below)):
            type_over(opened, "#threshold-number", f"{start:g}")
            opened.find("#threshold-number").send_keys(key)
            assert opened.number("#threshold-number") == expected
            assert opened.find("#threshold-range").get_attribute("value") == str(EXPLORED.index(expected))
            assert tile(opened, "coverage") == pytest.approx(at_threshold("sharp", expected)["coverage"])


def test_a_target_accuracy_gives_the_threshold_with_its_guarantee(opened: Browser) -> None:
    for percent in (1, 60, 70.25, 83, 95, 99.9, 99.999):
        opened.set("#target", percent)
        for name in ("sharp", "mild"):
            opened.choose("#threshold [data-picker]", name)
            expected = threshold_for_accuracy(examples(name), percent / 100)
            shown = opened.find("#guarantee [data-value=guarantee]").get_attribute("textContent")
            assert shown == f"{expected.message}."
            row = opened.find(f"#guarantee-all tr[data-model='{name}'] td").text
            assert row == ("none" if expected.threshold is None else f"{expected.threshold:g}")
            assert len(opened.all("#try-threshold")) == (expected.threshold is not None)
    answer, table = opened.column("#threshold .caution")
    assert answer.startswith("The guarantee is for a model and an accuracy chosen in advance.")
    assert table.endswith("the guarantee fails more often.")


def test_an_impossible_target_has_no_answer(opened: Browser) -> None:
    for text in ("0", "100", "-3", "1e9", ""):
        opened.set("#target", "10")  # typed on the way to 100, and easy to reach
        assert opened.all("#try-threshold")
        opened.set("#target", text)
        assert opened.find("#guarantee").text == "The target accuracy must be between 0 and 100 %, exclusive."
        assert opened.all("#try-threshold") == opened.all("#guarantee-all table") == []
        assert opened.find("#target").get_attribute("aria-invalid") == "true"
        opened.set("#target", "60")
        assert opened.find("#target").get_attribute("aria-invalid") == "false"
        assert opened.all("#guarantee-all table")


def test_a_guaranteed_threshold_can_be_tried(opened: Browser) -> None:
    for percent in (50, 62, 70):
        opened.set("#target", percent)
        expected = threshold_for_accuracy(examples("sharp"), percent / 100)
        assert expected.threshold is not None
        opened.find("#try-threshold").click()
        assert opened.js("return document.activeElement.id") == "try-threshold"  # the focus does not move
        assert opened.number("#threshold-number") == expected.threshold
        assert tile(opened, "coverage") == pytest.approx(expected.coverage, abs=1e-12)
        assert tile(opened, "accuracy") == pytest.approx(expected.accuracy, abs=1e-12)
