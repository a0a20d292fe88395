"""Diagrams are drawn, and the controls change them to what Python computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reporting.browser.chromium import Browser
from reporting.browser.pages import MODELS, SECTIONS, examples, passes, regrouped
from singleshot.metrics import Calibration
from singleshot.metrics.intervals import wilson_interval


def test_every_section_is_drawn(opened: Browser) -> None:
    assert [one.get_attribute("id") for one in opened.all("main > section")] == list(SECTIONS)
    assert all(opened.find(f"#{section}").is_displayed() for section in SECTIONS)
    assert len(opened.all("svg[role=img]")) == 3 + 3 + 1 + 1 + 1 + 3  # ECE was not recorded, so three training curves
    assert all(one.get_attribute("aria-label") for one in opened.all("svg[role=img]"))


def test_the_bins_slider_shows_the_errors_for_each_number_of_bins(opened: Browser) -> None:
    choices = opened.js("return JSON.parse(document.querySelector('#data').textContent).bin_choices")
    for bins in (5, 12, 25, 100):
        opened.set("#bins", choices.index(bins))
        assert opened.find("#bins-number").text == str(bins)
        for name, (logits, labels) in MODELS.items():
            calibration = Calibration(bins=bins)
            calibration.update(logits=torch.tensor(logits), labels=torch.tensor(labels))
            result = calibration.compute()
            for value, expected in (("ece", result.ece), ("mce", result.mce)):
                selector = f"#reliability [data-model='{name}'][data-value={value}]"
                # the page has float32 confidences for float32 logits
                assert opened.number(selector) == pytest.approx(expected, abs=1e-8)
                assert opened.find(selector).text == f"{expected:.4f}"
    opened.set("#bins", choices.index(20))
    opened.find("#bins").send_keys("\ue014")  # the right arrow
    assert opened.find("#bins-number").text == "24"
    assert opened.find("#bins").get_attribute("aria-valuetext") == "24 bins"
    assert "sharp: ECE" in opened.find("#bins-spoken").get_attribute("textContent")


def test_the_pickers_switch_the_model_and_its_examples(opened: Browser) -> None:
    assert len(opened.all("#reliability figure")) == 3
    opened.choose("#shown", "mild")
    (figure,) = opened.all("#reliability figure")
    assert figure.get_attribute("data-model") == "mild"
    assert len(opened.all("#histogram figure")) == 1
    opened.choose("#classes [data-picker]", "mild")
    assert opened.find("#threshold-tiles data").get_attribute("data-model") == "mild"
    assert opened.find("#inspection [data-picker]").get_attribute("value") == "1"
    assert opened.find("#training [data-picker]").get_attribute("value") == "0"  # the only model with a training
    # without images there is no gallery, but a table of the rows
    assert (len(opened.all("#inspection img, #inspection li")), len(opened.all("#inspection tbody tr"))) == (0, 48)
    found = examples("mild")
    wrong = (~found.correct).nonzero().squeeze(1)
    surest = int(wrong[found.confidence[wrong].argmax()])
    assert opened.column("#inspection tbody th")[0] == str(surest)
    opened.choose("#inspection [data-picker]", "sharp")
    assert (len(opened.all("#inspection img")), len(opened.all("#inspection tbody tr"))) == (2, 0)


def test_passes_have_at_most_twenty_bars(opened: Browser) -> None:
    found = passes()
    bars = regrouped(found, wide=3, bars=19)
    assert opened.find("#passes .values").text == f"5 passes over {found['examples']:,} of 50,000 examples"
    assert len(opened.all("#passes .column")) == sum(bar[2] > 0 for bar in bars)
    opened.unfold("#passes details")
    shown = [opened.column(f"#passes tr > :nth-child({column}):not([scope=col])") for column in range(1, 7)]
    lower, upper, count, accuracy, score, coverage = zip(*bars, strict=True)
    edges = [f"({low:.4g}, {high:.4g}]" for low, high in zip(lower, upper, strict=True)]
    ratios = [["–" if np.isnan(value) else f"{value:.4f}" for value in values] for values in (accuracy, score)]
    right = [0 if np.isnan(share) else round(share * some) for share, some in zip(accuracy, count, strict=True)]
    intervals = [
        "–" if np.isnan(low) else f"{low:.4f} – {high:.4f}"
        for low, high in zip(*wilson_interval(right, count), strict=True)
    ]
    assert shown[:5] == [edges, [str(value) for value in count], ratios[0], intervals, ratios[1]]
    assert shown[5][-1] == "100.0 %"
    assert float(shown[5][3].removesuffix(" %")) == pytest.approx(100 * coverage[3], abs=0.05)


def test_the_training_has_a_table(opened: Browser) -> None:
    opened.unfold("#training details")
    heads = ["Epoch", "Loss, training", "Accuracy, training", "Accuracy, validation", "NLL, validation"]
    assert opened.column("#training thead th") == heads
    assert opened.column("#training tbody tr") == [f"{epoch} 1.5000 0.5000 0.4000 1.2500" for epoch in (1, 2, 3)]


def test_the_legend_hides_and_shows_curves(opened: Browser) -> None:
    assert len(opened.all("#curves .model-line")) == 3
    button = opened.find("#curves .legend button[data-model=mild]")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert len(opened.all("#curves .model-line")) == 2
    button.send_keys(" ")
    assert len(opened.all("#curves .model-line")) == 3


def test_no_curve_shows_coverage_as_a_quality_of_its_own(opened: Browser) -> None:
    """An overconfident model covers more examples at every threshold, which says nothing good about it."""
    (chart,) = opened.all("#curves svg[role=img]")
    assert chart.get_attribute("aria-label") == "Risk against coverage of the models shown."
    assert "higher is better" not in opened.find("#curves").text
    opened.unfold("#curves details")
    heads = ["Model", "AURC", "Risk at 20 %", "Risk at 50 %", "Risk at 80 %", "Risk at 90 %", "Risk at 100 %"]
    assert opened.column("#curves thead th") == heads
    for name in MODELS:
        right = examples(name).correct.double().mean()
        row = f"#curves tr:has(th[title='{name}']) td:last-child"
        shown = opened.column(row) or opened.column("#curves tbody td:last-child")
        assert f"{100 * (1 - right):.1f} %" in shown


def test_counts_are_logarithmic_at_first(opened: Browser) -> None:
    assert opened.find("#log").is_selected()
    heights = """return [...document.querySelectorAll("#histogram figure:first-child .column")]
      .map((it) => it.querySelector(".bar").getBoundingClientRect().height)"""
    before = opened.js(heights)
    opened.find("#log").click()
    after = opened.js(heights)
    share = [min(filter(None, some)) / max(some) for some in (before, after)]
    assert share[0] > 2 * share[1]  # few examples are visible beside many
