"""The text that ``evaluate`` prints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from integration.overconfident import run, shown_json
from predictions.files import predictions
from singleshot.cli.evaluate import evaluate


def shown(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    run(evaluate, *args)
    return capsys.readouterr().out


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, rows in (("a", 60), ("few", 29), ("one", 1)):
        logits, labels = predictions(rows, 3, "logits")
        np.savez(f"{name}.npz", logits=logits, labels=labels)
    return tmp_path


def test_notes_on_large_files(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("singleshot.evaluation.evaluation.MAX_RESAMPLED", 50)
    text = shown(capsys, "a.npz", "a.npz")
    assert "Intervals, AURC, and the debiased, equal-mass and smooth ECE are omitted above 50 examples" in text
    assert "a.npz and a.npz are not compared: more than 50 examples; use --replicates 1000 to compare them." in text
    run(evaluate, "a.npz", "a.npz", "--json")
    found = shown_json(capsys)
    assert found["evaluations"][0]["aurc"] is None
    assert found["evaluations"][0]["smooth_ece"] is None
    assert "not compared" in found["comparisons"][0]["why"]
    with_threshold = shown(capsys, "a.npz", "a.npz", "--accuracy", "0.5")
    assert "Intervals are omitted above 50 examples; use --replicates 1000 to compute them." in with_threshold
    assert "a.npz and a.npz are not compared" in with_threshold
    on_request = shown(capsys, "a.npz", "a.npz", "--replicates", "20")
    assert "a.npz minus a.npz" in on_request
    assert "AURC" in on_request


def test_notes_on_intervals_and_small_files(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    without = shown(capsys, "a.npz", "--replicates", "0")
    for name in ("AURC", "ECE, debiased", "ECE, equal-mass", "ECE, smooth"):
        assert f"  {name}" in without
    assert "omitted" not in without
    few = shown(capsys, "few.npz", "few.npz", "--replicates", "20")
    assert "No intervals: they need at least 30 examples, got 29." in few
    assert "few.npz and few.npz are not compared: a comparison needs at least 30 examples, got 29." in few
    assert "95 % interval" not in few
    assert shown(capsys, "one.npz").startswith("one.npz: 1 example, 3 classes, logits\n")


def test_huge_and_infinite_losses(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("huge.npz", logits=np.array([[1e30, -1e30]] * 40), labels=np.arange(40) % 2)
    lines = shown(capsys, "huge.npz", "a.npz", "--replicates", "20").splitlines()
    assert all(len(line) < 120 for line in lines)
    assert any(line.startswith("  NLL                 1e+30   ") for line in lines)
    assert "nll_is_infinite" not in json.loads(shown(capsys, "a.npz", "--replicates", "20", "--json"))


def test_control_characters_in_file_names_are_escaped(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "a\x1b[2J.npz"
    Path(evil).write_bytes(Path("a.npz").read_bytes())
    text = shown(capsys, evil, evil, "few.npz", "--replicates", "20")
    assert "\x1b" not in text
    assert "\\x1b[2J" in text


def test_ambiguous_labels_need_a_flag(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.csv").write_text("label,prob_1,prob_2\n" + "1,0.9,0.1\n2,0.2,0.8\n" * 20)
    with pytest.raises(ValueError, match="--labels-are"):
        shown(capsys, "a.csv")
    assert json.loads(shown(capsys, "a.csv", "--labels-are", "names", "--replicates", "0", "--json"))["accuracy"] == 1
