"""``singleshot evaluate`` on files of predictions, as a user runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle
from integration.overconfident import calibrated, run, shown_json, write_overconfident
from singleshot.cli.evaluate import evaluate
from singleshot.evaluation.evaluation import evaluate_file
from singleshot.predictions import read_predictions


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_overconfident(tmp_path)
    return tmp_path


def test_a_file_has_metrics_with_intervals_and_a_verdict(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(evaluate, "test.npz", "--replicates", "50")
    shown = capsys.readouterr().out
    assert shown.startswith("test.npz: 1,500 examples, 4 classes, logits\n")
    for metric in (
        "Accuracy",
        "ECE",
        "ECE, debiased",
        "ECE, equal-mass",
        "MCE",
        "NLL",
        "Brier",
        "AURC",
        "AURC, excess",
        "Overconfidence",
    ):
        assert re.search(rf"^  {metric} +\d\.\d{{4}}   \d\.\d{{4}} – \d\.\d{{4}}$", shown, re.MULTILINE), metric
    assert re.search(r"^Miscalibrated: overconfident by \d\d(\.\d)? points\.$", shown, re.MULTILINE)
    words = " ".join(shown.split())
    assert re.search(
        r"Scores of 0\.9 and above claimed [\d.]+ % on average and were right [\d.]+ % of the time \(\d+ examples\): "
        r"errors are [\d.]+ times as frequent as claimed\. Chance alone does not explain the deviation \(p = 0\.003\)",
        words,
    )
    run(evaluate, "test.npz", "--replicates", "50", "--json")
    found = shown_json(capsys)["verdict"]
    assert (found["level"], found["badge"], found["p_value"] < 0.05) == ("bad", "Miscalibrated", True)
    assert " ".join(found["sentences"][1:]) in words
    run(evaluate, "test.npz", "--replicates", "0")
    assert "interval" not in capsys.readouterr().out


def test_the_numbers_match_the_oracle(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(evaluate, "test.npz", "--replicates", "20", "--bins", "7", "--classwise", "--json")
    found = shown_json(capsys)
    chunk = read_predictions("test.npz").load()
    probs = oracle.softmax(chunk.scores.astype(np.float64))
    expected = oracle.calibration(probs, chunk.labels, 7)
    for name in ("accuracy", "ece", "mce", "rmsce", "nll", "brier", "mean_confidence"):
        assert found[name] == pytest.approx(expected[name], abs=1e-6), name
        assert found["intervals"][name]["low"] <= found["intervals"][name]["high"]
    assert found["bins"]["count"] == expected["bin_count"].tolist()
    assert found["classwise_ece"] == pytest.approx(oracle.classwise_ece(probs, chunk.labels, 7), abs=1e-6)
    assert found["intervals"]["classwise_ece"]["estimate"] == pytest.approx(found["classwise_ece"], abs=1e-9)
    assert found["excess_aurc"] == found["intervals"]["excess_aurc"]["estimate"]
    assert (found["file"], found["kind"], found["classes"], found["count"]) == ("test.npz", "logits", 4, 1500)


def test_several_files_are_compared_on_the_same_examples(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logits, labels = calibrated(1, 1500)
    np.savez("better.npz", logits=logits, labels=labels)
    run(evaluate, "test.npz", "better.npz", "val.npz", "--replicates", "100", "--json")
    found = shown_json(capsys)
    assert [one["file"] for one in found["evaluations"]] == ["test.npz", "better.npz", "val.npz"]
    better, other = found["comparisons"]
    assert (better["of"], better["against"]) == ("better.npz", "test.npz")
    ece = better["differences"]["ece"]
    # Debiased values are compared, so this need not be the plain difference.
    plain = found["evaluations"][1]["ece"] - found["evaluations"][0]["ece"]
    assert ece["difference"] == pytest.approx(plain, abs=0.05)
    assert ece["high"] < 0
    assert other["differences"] is None  # the labels differ
    run(evaluate, "test.npz", "better.npz", "val.npz", "--replicates", "100")
    shown = capsys.readouterr().out
    assert re.search(r"^ +test\.npz  better\.npz +val\.npz$", shown, re.MULTILINE)
    assert "better.npz minus test.npz, on the same examples" in shown
    assert re.search(r"^  ECE, debiased +-0\.\d{4}   -0\.\d{4} – -0\.\d{4}   0\.010$", shown, re.MULTILINE)
    assert "val.npz and test.npz are not compared: their labels differ" in shown


def test_a_required_accuracy_gives_a_threshold(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(evaluate, "test.npz", "--accuracy", "0.7", "--replicates", "0", "--json")
    found = shown_json(capsys)["threshold"]
    chunk = read_predictions("test.npz").load()
    probs = oracle.softmax(chunk.scores.astype(np.float64))
    accepted = probs.max(1) >= found["threshold"] - 1e-6
    assert found["coverage"] == pytest.approx(accepted.mean(), abs=2e-3)
    right = (probs.argmax(1) == chunk.labels)[accepted].mean()
    assert right == pytest.approx(found["accuracy"], abs=2e-3)
    assert found["accuracy"] >= found["lower_bound"] >= 0.7
    run(evaluate, "test.npz", "--accuracy", "0.7", "--replicates", "0")
    assert f"Accepting scores of {found['threshold']:g} and above keeps" in capsys.readouterr().out
    run(evaluate, "test.npz", "--accuracy", "0.9999", "--replicates", "0")
    assert "No threshold is 95 % certain to reach an accuracy of 99.99 %" in capsys.readouterr().out


def test_runs_and_files_are_compared(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "runs").mkdir()
    calls: list[dict[str, Any]] = []

    class FakeRun:
        def __init__(self, folder: Path, *, split: str, **_: Any) -> None:
            self.folder, self.split = str(folder), split

        def evaluate(self, *, predictions: Path | None, **options: Any) -> Any:
            calls.append({"split": self.split, "predictions": predictions})
            found = evaluate_file(read_predictions("test.npz"), **options)
            return replace(found, name=self.folder, source={"run": self.folder, "step": 7})

    monkeypatch.setattr("singleshot.evaluation.loaded_run.LoadedRun.open", FakeRun)
    run(evaluate, "runs", "--json", "--replicates", "10", "--split", "validation", "--predictions", "out.npz")
    found = shown_json(capsys)
    assert (found["run"], found["step"], "intervals" in found) == ("runs", 7, True)
    assert (calls[0]["split"], calls[0]["predictions"]) == ("validation", Path("out.npz"))
    run(evaluate, "runs", "test.npz", "--replicates", "10", "--json")
    (compared,) = shown_json(capsys)["comparisons"]
    assert (compared["of"], compared["against"]) == ("test.npz", "runs")
    assert compared["differences"]["nll"]["difference"] == 0
    assert (calls[1]["split"], calls[1]["predictions"]) == ("test", None)


def test_figures(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for ending in ("png", "pdf", "svg"):
        run(evaluate, "test.npz", "val.npz", "--replicates", "0", "--figure", f"new/out.{ending}")
        assert capsys.readouterr().out.endswith(f"Figure: new/out.{ending}\n")
        assert (place / "new" / f"out.{ending}").stat().st_size > 5000


INVALID: list[tuple[list[str], str]] = [
    ([], "give a file of predictions or a run"),
    (["absent.npz"], "absent.npz: no such file"),
    (["test.pkl"], "test.pkl has an unsupported format"),
    (["test.npz", "--kind", "probs"], "test.npz has no 'probs'; found logits, labels, class_names"),
    (["test.npz", "--replicates", "-1"], "replicates must be "),
    (["test.npz", "--bins", "0"], "bins must be "),
    (["test.npz", "--accuracy", "95"], "accuracy must lie in (0, 1), got 95"),
    (["test.npz", "--figure", "out.txt"], "--figure out.txt must end in .png, .pdf or .svg"),
    (["test.npz", "--predictions", "out.npz"], "--predictions out.npz is only for runs"),
]


def test_invalid_arguments(place: Path) -> None:
    Path("test.pkl").write_bytes(b"no predictions")
    for args, message in INVALID:
        with pytest.raises(ValueError, match=re.escape(message)):
            run(evaluate, *args)


def singleshot(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "singleshot", *args],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


def test_an_error_is_one_message_and_help_lists_the_formats(place: Path) -> None:
    chunk = read_predictions("test.npz").load()
    np.savez("bad.npz", probs=chunk.scores, labels=chunk.labels)
    refused = singleshot("evaluate", "bad.npz", cwd=place)
    assert refused.returncode == 2
    assert refused.stdout == ""
    message = (
        r"singleshot: bad\.npz: probabilities must lie in \[0, 1\] .*; row 0 \(counted from 0\) has .* --kind logits\n"
    )
    assert re.fullmatch(message, refused.stderr)
    helped = singleshot("evaluate", "--help", cwd=place)
    assert helped.returncode == 0
    for word in (".npz", ".npy", ".csv", ".parquet", ".safetensors", "prob_CLASS", "Example: singleshot evaluate"):
        assert word in helped.stdout
