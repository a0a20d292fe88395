"""Evaluating files of predictions as a user does it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle
import singleshot as ss
from integration.overconfident import calibrated, run, shown_json, write_overconfident
from singleshot.cli.evaluate import evaluate
from singleshot.predictions import read_predictions


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_overconfident(tmp_path)
    return tmp_path


def test_a_file_gets_every_metric_with_its_interval_and_a_verdict(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    verdict = r"^Overconfident by \d\d points; scores of 0\.9 and above are right \d\d % of the time \(\d+ of them\)\.$"
    assert re.search(verdict, shown, re.MULTILINE)
    assert "Perfect calibration would show so large an ECE by chance with p = 0.020." in shown
    run(evaluate, "test.npz", "--replicates", "0")
    assert "interval" not in capsys.readouterr().out


def test_the_numbers_are_those_of_the_oracle(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    # What is compared is without the bias of chance, so it need not be the plain difference.
    plain = found["evaluations"][1]["ece"] - found["evaluations"][0]["ece"]
    assert ece["difference"] == pytest.approx(plain, abs=0.05)
    assert ece["high"] < 0
    assert other["differences"] is None  # other labels, other examples
    run(evaluate, "test.npz", "better.npz", "val.npz", "--replicates", "100")
    shown = capsys.readouterr().out
    assert re.search(r"^ +test\.npz  better\.npz +val\.npz$", shown, re.MULTILINE)
    assert "better.npz minus test.npz, on the same examples" in shown
    assert re.search(r"^  ECE, debiased +-0\.\d{4}   -0\.\d{4} – -0\.\d{4}   0\.010$", shown, re.MULTILINE)
    assert "val.npz and test.npz have different labels" in shown


def test_a_wanted_accuracy_gets_its_threshold(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_run_is_measured_like_its_predictions(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "runs").mkdir()
    asked: list[Any] = []

    def evaluate_run(folder: Path, *, predictions: Path | None, **options: Any) -> tuple[ss.CalibrationResult, int]:
        asked.append((str(folder), predictions is not None, options["split"]))
        calibration = ss.Calibration()
        for batch in read_predictions("test.npz").batches():
            calibration.update(**batch)
        if predictions is not None:
            predictions.write_bytes(Path("test.npz").read_bytes())
        return calibration.compute(), 7

    monkeypatch.setattr("singleshot.evaluation.runs.evaluate_run", evaluate_run)
    run(evaluate, "runs", "--json")
    plain = shown_json(capsys)
    assert (plain["run"], plain["step"], "intervals" in plain) == ("runs", 7, True)
    run(evaluate, "runs", "--json", "--replicates", "10", "--split", "validation", "--predictions", "out.npz")
    with_intervals = shown_json(capsys)
    assert {name: with_intervals[name] for name in ("ece", "bins")} == {name: plain[name] for name in ("ece", "bins")}
    assert with_intervals["intervals"]["ece"]["estimate"] == pytest.approx(plain["ece"], abs=1e-6)
    assert Path("out.npz").read_bytes() == Path("test.npz").read_bytes()
    run(evaluate, "runs", "test.npz", "--replicates", "10", "--json")
    (compared,) = shown_json(capsys)["comparisons"]
    assert (compared["of"], compared["against"]) == ("test.npz", "runs")
    assert compared["differences"]["nll"]["difference"] == 0
    assert asked == [("runs", True, "test"), ("runs", True, "validation"), ("runs", True, "test")]


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_a_figure_is_drawn(ending: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(evaluate, "test.npz", "val.npz", "--replicates", "0", "--figure", f"new/out.{ending}")
    assert capsys.readouterr().out.endswith(f"The picture:  new/out.{ending}\n")
    assert (place / "new" / f"out.{ending}").stat().st_size > 5000


MISTAKES = [
    ([], "name a file of predictions or a run"),
    (["absent.npz"], "absent.npz: there is no such file"),
    (["test.pkl"], "test.pkl is of no known format"),
    (["test.npz", "--kind", "probs"], "test.npz has no array 'probs'; there is logits, labels, class_names"),
    (["test.npz", "--replicates", "-1"], "--replicates must be at least 2"),
    (["test.npz", "--bins", "0"], "--bins must be at least 1"),
    (["test.npz", "--accuracy", "95"], "--accuracy must lie strictly between 0 and 1"),
    (["test.npz", "--figure", "out.txt"], "--figure out.txt must end in .png, .pdf, .svg"),
    (["test.npz", "--predictions", "out.npz"], "--predictions out.npz is for runs"),
]


@pytest.mark.parametrize(("args", "message"), MISTAKES)
def test_mistakes_in_evaluate(args: list[str], message: str, place: Path) -> None:
    Path("test.pkl").write_bytes(b"no predictions")
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


def test_in_a_process_of_its_own_a_mistake_is_one_message_and_help_tells_the_formats(place: Path) -> None:
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
    shown = singleshot("evaluate", "test.npz", "--replicates", "0", cwd=place)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("test.npz: 1,500 examples, 4 classes, logits\n")
