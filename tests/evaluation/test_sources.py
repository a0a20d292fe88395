"""What ``evaluate`` prints of a source, and what it says it leaves out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro

from predictions.files import predictions
from singleshot.cli.evaluate import evaluate
from singleshot.evaluation.text import ABOUT_ECE_INTERVALS


def shown(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    tyro.cli(evaluate, args=list(args), config=(tyro.conf.FlagCreatePairsOff,))
    return capsys.readouterr().out


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, rows in (("a", 60), ("few", 29), ("one", 1)):
        logits, labels = predictions(rows, 3, "logits")
        np.savez(f"{name}.npz", logits=logits, labels=labels)
    return tmp_path


def limited(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    for module in ("predictions.evaluation", "predictions.comparing"):
        monkeypatch.setattr(f"singleshot.{module}.MOST_RESAMPLED", most)


def test_point_estimates_stay_without_replicates(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "a.npz", "--replicates", "0")
    for name in ("AURC", "ECE, debiased", "ECE, equal-mass", "ECE, smooth"):
        assert f"  {name}" in text
    assert "Left out" not in text


def test_long_files_say_what_is_left_out(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limited(monkeypatch, 50)
    text = shown(capsys, "a.npz", "a.npz")
    assert "Left out above 50 examples unless asked for: intervals, AURC" in text
    assert "a.npz and a.npz are not compared: one has more than 50 examples; --replicates 1000 compares them." in text
    found: Any = json.loads(shown(capsys, "a.npz", "a.npz", "--json"))
    assert found["evaluations"][0]["aurc"] is None
    assert found["evaluations"][0]["smooth_ece"] is None
    assert "not compared" in found["comparisons"][0]["why"]
    with_threshold = shown(capsys, "a.npz", "a.npz", "--accuracy", "0.5")
    assert "Left out above 50 examples unless asked for: intervals; --replicates 1000 gives them." in with_threshold
    assert "a.npz and a.npz are not compared" in with_threshold
    asked_for = shown(capsys, "a.npz", "a.npz", "--replicates", "20")
    assert "a.npz minus a.npz" in asked_for
    assert "AURC" in asked_for


def test_an_interval_of_an_ece_is_explained_and_few_examples_have_none(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ABOUT_ECE_INTERVALS in shown(capsys, "a.npz", "--replicates", "20")
    few = shown(capsys, "few.npz", "few.npz", "--replicates", "20")
    assert "No intervals: they take 30 examples or more, here are 29." in few
    assert "few.npz and few.npz are not compared: that takes 30 examples or more, here are 29." in few
    assert "95 % interval" not in few
    assert shown(capsys, "one.npz").startswith("one.npz: 1 example, 3 classes, logits\n")


def test_huge_and_infinite_losses(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("huge.npz", logits=np.array([[1e30, -1e30]] * 40), labels=np.arange(40) % 2)
    lines = shown(capsys, "huge.npz", "a.npz", "--replicates", "20").splitlines()
    assert all(len(line) < 120 for line in lines)
    assert any(line.startswith("  NLL                 1e+30   ") for line in lines)
    np.savez("never.npz", probs=np.array([[1.0, 0.0]] * 40), labels=np.arange(40) % 2)
    found = json.loads(shown(capsys, "never.npz", "--replicates", "20", "--json"))
    assert (found["nll"], found["nll_is_infinite"]) == (None, True)
    assert "nll_is_infinite" not in json.loads(shown(capsys, "a.npz", "--replicates", "20", "--json"))


def test_the_name_of_a_file_does_not_speak_to_the_terminal(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "a\x1b[2J.npz"
    Path(evil).write_bytes(Path("a.npz").read_bytes())
    assert "\x1b" not in shown(capsys, "a.npz", evil, "--replicates", "20")


def test_numbers_that_could_be_names_are_settled_by_a_flag(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.csv").write_text("label,prob_1,prob_2\n" + "1,0.9,0.1\n2,0.2,0.8\n" * 20)
    with pytest.raises(ValueError, match="--labels-are"):
        shown(capsys, "a.csv")
    assert json.loads(shown(capsys, "a.csv", "--labels-are", "names", "--replicates", "0", "--json"))["accuracy"] == 1
