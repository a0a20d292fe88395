"""Diagrams: all are drawn, and the slider, the switch and the legend change them to what Python computes."""

from __future__ import annotations

import pytest
import torch

from report.browser.chromium import Browser
from report.browser.pages import MODELS, SECTIONS
from singleshot.metrics import Calibration


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
