"""The cards: badge, sentences, test and next step agree with ``singleshot evaluate``, and fill the row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from integration.overconfident import calibrated, run
from oracle import softmax
from reporting.browser.chromium import Browser
from singleshot.cli.evaluate import evaluate
from singleshot.cli.report import report
from singleshot.reporting.page import run_report, write_page

FACTORS = {"over.npz": 3.0, "right.npz": 1.0, "under.npz": 0.4, "few.npz": 1.0}
BADGES = {"over.npz": "Miscalibrated", "right.npz": "Calibrated", "under.npz": "Miscalibrated", "few.npz": "Unclear"}
ROWS = """const tops = new Map();
  for (const it of document.querySelectorAll(".card")) {
    const {top, left, right} = it.getBoundingClientRect(), row = tops.get(top) ?? [left, right];
    tops.set(top, [Math.min(row[0], left), Math.max(row[1], right)]);
  }
  const box = document.querySelector(".cards").getBoundingClientRect();
  return [...tops.values()].map(([left, right]) => [left - box.left, box.right - right])"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verdicts")
    logits, labels = calibrated(0, 3000)
    for name, factor in FACTORS.items():
        rows = 90 if name == "few.npz" else 3000
        np.savez(folder / name, logits=logits[:rows] * factor, labels=labels[:rows])
    files = [str(folder / name) for name in FACTORS]
    run(report, *files, "-o", str(folder / "page.html"), "--replicates", "20", "--bins", "12")
    run(report, files[0], "-o", str(folder / "one.html"), "--replicates", "0")
    return folder


@pytest.fixture(scope="module")
def doubtful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a file with swapped labels, one without classes, and one with rounded probabilities."""
    folder = tmp_path_factory.mktemp("doubtful")
    generator = np.random.default_rng(0)
    positive = generator.beta(0.3, 0.3, 2000)
    labels = (generator.random(2000) < positive).astype(int)
    np.savez(folder / "swapped.npz", probs=positive, labels=1 - labels)
    lines = [f"{max(p, 1 - p):.4f},{int((p > 0.5) == y)}" for p, y in zip(positive, labels, strict=True)]
    (folder / "correct.csv").write_text("confidence,correct\n" + "\n".join(lines))
    logits, labels = calibrated(0, 2000)
    np.savez(folder / "rounded.npz", probs=softmax(logits * 3).round(2), labels=labels)
    for page, names in {"all": ("swapped.npz", "correct.csv", "rounded.npz"), "one": ("correct.csv",)}.items():
        run(report, *(str(folder / name) for name in names), "-o", str(folder / f"{page}.html"), "--replicates", "0")
    return folder


def card(name: str, part: str) -> str:
    return f".card[data-model='{name}'] {part}"


def test_badge_sentences_and_p_value_are_those_of_evaluate(
    browser: Browser, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    browser.open(place / "page.html")
    for name, badge in BADGES.items():
        run(evaluate, str(place / name), "--replicates", "20", "--bins", "12")
        printed = " ".join(capsys.readouterr().out.split())
        assert browser.find(card(name, ".badge")).text.endswith(f" {badge}")
        finding = browser.find(card(name, ".verdict")).text
        assert f"{badge}: {finding[0].lower()}{finding[1:]}" in printed
        details = browser.column(card(name, ".details li"))
        assert " ".join(details) in printed
        assert details[0].startswith("All scores claimed ")
        role = "does not explain" if badge == "Miscalibrated" else "could explain"
        assert details[-1].startswith(f"Chance alone {role} the deviation (p = 0.") or "p = 1.000" in details[-1]
    assert "times as frequent as claimed" in browser.find(card("over.npz", ".details")).text
    assert "rarer than claimed" in browser.find(card("under.npz", ".details")).text


def test_swapped_labels_are_named_before_any_advice(browser: Browser, doubtful: Path) -> None:
    browser.open(doubtful / "all.html")
    assert browser.find(card("swapped.npz", ".badge")).text.endswith(" Check the labels")
    assert browser.find(card("swapped.npz", ".verdict")).text.startswith("The labels look swapped: only 1")
    assert "--positive LABEL" in browser.column(card("swapped.npz", ".details li"))[0]
    assert "Check the labels first" in browser.find(card("swapped.npz", ".next")).text
    assert browser.all(card("swapped.npz", ".next pre")) == []


def test_rounded_probabilities_get_advice_that_helps(browser: Browser, doubtful: Path) -> None:
    browser.open(doubtful / "all.html")
    assert "One temperature fixes most of this:" in browser.find(card("rounded.npz", ".next")).text
    gain = browser.js("return JSON.parse(document.querySelector('#data').textContent).models[2].next_step.gain")
    assert gain["ece"][1] < gain["ece"][0] / 3
    assert gain["nll"][1] < gain["nll"][0]


def test_without_classes_there_are_no_tables_of_classes(browser: Browser, doubtful: Path) -> None:
    browser.open(doubtful / "one.html")
    for section in ("classes", "confusions"):
        assert browser.js(f"return document.querySelector('#{section}').hidden")
    heads = browser.column("#inspection thead th")
    assert {head.split()[0] for head in heads} == {"Row", "Score"}
    assert "classes" not in browser.find(card("correct.csv", ".muted")).text
    browser.open(doubtful / "all.html")
    options = browser.js("return [...document.querySelectorAll('#classes option')].map((one) => one.textContent)")
    assert options == ["swapped.npz", "rounded.npz"]
    assert not browser.js("return document.querySelector('#classes').hidden")


def test_the_page_says_what_to_do(browser: Browser, place: Path) -> None:
    browser.open(place / "page.html")
    text = browser.find(card("over.npz", ".next")).text
    assert "Do not take the scores as probabilities. One temperature fixes most of this:" in text
    command = browser.find(card("over.npz", ".next pre")).text
    assert command.startswith("singleshot calibrate ")
    assert command.endswith(" --fit-on held-out.npz -o calibrated.npz")
    gain = browser.js("return JSON.parse(document.querySelector('#data').textContent).models[0].next_step.gain")
    change = f"ECE {gain['ece'][0]:.4f} → {gain['ece'][1]:.4f}, NLL {gain['nll'][0]:.4f}"
    assert f"Expected of a temperature of {gain['temperature']:.2f}: {change}" in text
    assert "each half of these examples is calibrated by the fit of the other half (3,000 examples)" in text
    assert gain["temperature"] == pytest.approx(3, rel=0.1)
    assert gain["ece"][1] < gain["ece"][0] / 4
    assert f"verdict “{gain['badge']}”" in text
    right = browser.find(card("right.npz", ".next")).text
    assert "Take a score as the probability of being right" in right
    assert browser.all(card("right.npz", ".next pre")) == []
    assert "Evaluate more examples: about " in browser.find(card("few.npz", ".next")).text


def test_a_run_is_calibrated_on_its_validation_images(browser: Browser, trained: Path, tmp_path: Path) -> None:
    for split in ("test", "train"):
        write_page([run_report(trained, name="a run", replicates=0, split=split)], tmp_path / "run.html", title="A run")
        browser.open(tmp_path / "run.html")
        text = browser.find(".card .next").text
        assert ("--split validation --predictions validation.npz" in text) == (split == "test")
        assert ("say nothing about new images" in text) == (split == "train")


def test_cards_fill_the_row(browser: Browser, place: Path) -> None:
    for page, width in (("page.html", 1400), ("page.html", 1000), ("page.html", 390), ("one.html", 1400)):
        browser.open(place / page)
        browser.emulate(width=width)
        for left, right in browser.js(ROWS):
            assert abs(left) < 1, (page, width)
            assert abs(right) < 1, (page, width)


def test_the_report_has_the_bins_of_the_command(browser: Browser, place: Path) -> None:
    browser.open(place / "page.html")
    assert browser.find("#bins-number").text == "12"
    assert browser.find("#bins").get_attribute("aria-valuetext") == "12 bins"
    assert browser.all("#bins-note") == []
    table = browser.column("#metrics [data-metric=ece]")
    assert table == browser.column("#reliability [data-value=ece]")
    assert "--bins 12" in browser.find("#recipe pre").text
