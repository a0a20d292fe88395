"""Evaluating and calibrating files of predictions as a user does it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro

import oracle
import singleshot as ss
from singleshot.cli.calibrate import calibrate
from singleshot.cli.evaluate import evaluate
from singleshot.predictions import read_predictions

CLASSES = 4


def calibrated(seed: int, rows: int) -> tuple[Any, Any]:
    """Logits whose softmax is the truth, and labels drawn from it."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(rows, CLASSES)) * 1.5
    return logits, (logits + random.gumbel(size=logits.shape)).argmax(1)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with overconfident predictions in val.npz and test.npz, which are three times too sure."""
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(["val", "test"]):
        logits, labels = calibrated(seed, 1500)
        np.savez(
            tmp_path / f"{name}.npz", logits=(logits * 3).astype(np.float32), labels=labels, class_names=list("abcd")
        )
    return tmp_path


def run(command: Any, *args: str) -> None:
    tyro.cli(command, args=list(args), config=(tyro.conf.FlagCreatePairsOff,))


def shown_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_file_gets_every_metric_with_its_interval_and_a_verdict(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(evaluate, "test.npz", "--replicates", "50")
    shown = capsys.readouterr().out
    assert shown.startswith("test.npz: 1,500 examples, 4 classes, logits\n")
    for metric in ("Accuracy", "ECE", "ECE, debiased", "ECE, equal-mass", "MCE", "NLL", "Brier", "AURC"):
        assert re.search(rf"^  {metric} +\d\.\d{{4}}   \d\.\d{{4}} – \d\.\d{{4}}$", shown, re.MULTILINE), metric
    assert re.search(r"^On average overconfident by \d\d\.\d points\.$", shown, re.MULTILINE)
    assert "Perfect calibration is ruled out (p = 0.020)." in shown
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
    assert re.search(r"^  ECE +-0\.\d{4}   -0\.\d{4} – -0\.\d{4}   0\.010$", shown, re.MULTILINE)
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
    assert f"Accepting confidence ≥ {found['threshold']:g} keeps" in capsys.readouterr().out
    run(evaluate, "test.npz", "--accuracy", "0.9999", "--replicates", "0")
    assert "No threshold is sure to reach an accuracy of 0.9999" in capsys.readouterr().out


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

    monkeypatch.setattr("singleshot.training.judgement.evaluate_run", evaluate_run)
    run(evaluate, "runs", "--json")
    plain = shown_json(capsys)
    assert (plain["run"], plain["step"], "intervals" in plain) == ("runs", 7, False)
    run(evaluate, "runs", "--json", "--replicates", "10", "--split", "validation", "--predictions", "out.npz")
    with_intervals = shown_json(capsys)
    assert {name: with_intervals[name] for name in ("ece", "bins")} == {name: plain[name] for name in ("ece", "bins")}
    assert with_intervals["intervals"]["ece"]["estimate"] == pytest.approx(plain["ece"], abs=1e-6)
    assert Path("out.npz").read_bytes() == Path("test.npz").read_bytes()
    run(evaluate, "runs", "test.npz", "--replicates", "10", "--json")
    (compared,) = shown_json(capsys)["comparisons"]
    assert (compared["of"], compared["against"]) == ("test.npz", "runs")
    assert compared["differences"]["nll"]["difference"] == 0
    assert asked == [("runs", False, "test"), ("runs", True, "validation"), ("runs", True, "test")]


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_a_figure_is_drawn(ending: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(evaluate, "test.npz", "val.npz", "--replicates", "0", "--figure", f"new/out.{ending}")
    assert capsys.readouterr().out.endswith(f"The picture:  new/out.{ending}\n")
    assert (place / "new" / f"out.{ending}").stat().st_size > 5000


def test_calibrate_fits_on_one_file_and_fixes_another(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(calibrate, "test.npz", "--fit-on", "val.npz", "-o", "fixed.npz", "--save-scaling", "s.json", "--json")
    found = shown_json(capsys)
    val, test = read_predictions("val.npz").load(), read_predictions("test.npz").load()
    assert found["temperature"] == pytest.approx(oracle_temperature(val.scores, val.labels), rel=1e-6)
    assert found["judged_on_the_fitting_file"] is False
    fixed = read_predictions("fixed.npz")
    assert fixed.class_names == ("a", "b", "c", "d")
    np.testing.assert_allclose(fixed.load().scores, test.scores / found["temperature"], rtol=1e-6)
    np.testing.assert_array_equal(fixed.load().labels, test.labels)
    probs = oracle.softmax(test.scores.astype(np.float64))
    assert found["before"]["ece"] == pytest.approx(oracle.calibration(probs, test.labels, 20)["ece"], abs=1e-6)
    assert found["after"]["ece"] < found["before"]["ece"] / 3
    assert found["after"]["accuracy"] == found["before"]["accuracy"]

    run(calibrate, "test.npz", "--load-scaling", "s.json", "-o", "again.npz")
    shown = capsys.readouterr().out
    assert re.match(r"test\.npz: 1,500 examples, 4 classes; temperature \d\.\d{4}, from s\.json\n", shown)
    assert "Before: On average overconfident by" in shown
    assert shown.endswith("The new predictions:  again.npz\n")
    np.testing.assert_array_equal(read_predictions("again.npz").load().scores, fixed.load().scores)


def oracle_temperature(logits: Any, labels: Any) -> float:
    """The temperature with the least NLL, by a bounded search in float64."""
    from scipy.optimize import minimize_scalar

    scores = logits.astype(np.float64)

    def nll(log_temperature: float) -> float:
        probs = oracle.softmax(scores / np.exp(log_temperature))
        return float(-np.log(probs[np.arange(len(labels)), labels]).mean())

    found = minimize_scalar(nll, bracket=(0.5, 1.5), tol=1e-9)
    return float(np.exp(found.x))


@pytest.mark.parametrize("method", ["vector", "matrix", "isotonic", "histogram"])
def test_other_methods_fix_probabilities_of_another_format(
    method: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chunk = read_predictions("test.npz").load()
    probs = oracle.softmax(chunk.scores.astype(np.float64))
    rows = [
        ",".join(map(repr, row)) + f",{'abcd'[label]}" for row, label in zip(probs.tolist(), chunk.labels, strict=True)
    ]
    Path("test.csv").write_text("\n".join(["prob_a,prob_b,prob_c,prob_d,label", *rows]))
    run(calibrate, "test.csv", "--fit-on", "val.npz", "--method", method, "-o", "fixed.npz", "--json")
    found = shown_json(capsys)
    assert found["method"] == method
    assert found["after"]["nll"] < found["before"]["nll"]
    calibration = ss.Calibration()
    for batch in read_predictions("fixed.npz").batches(100):
        calibration.update(**batch)
    assert calibration.compute().ece == pytest.approx(found["after"]["ece"], abs=1e-9)


def test_a_fitting_set_with_a_missing_class_is_said(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunk = read_predictions("val.npz").load()
    kept = chunk.labels != 2
    np.savez("few.npz", logits=chunk.scores[kept], labels=chunk.labels[kept], class_names=list("abcd"))
    with pytest.warns(UserWarning, match=r"few\.npz has no example of 1 of 4 classes \(c\)"):
        run(calibrate, "test.npz", "--fit-on", "few.npz")
    with pytest.warns(UserWarning, match="class 2 has no example in the fitting set"):
        run(calibrate, "test.npz", "--fit-on", "few.npz", "--method", "vector")


def test_the_file_that_is_judged_is_fitted_on_only_when_that_is_said(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("link.npz").symlink_to("test.npz")
    for same in ("test.npz", "./test.npz", "link.npz"):
        with pytest.raises(ValueError, match="cannot be both fitted on and judged by"):
            run(calibrate, "test.npz", "--fit-on", same)
    run(calibrate, "test.npz", "--fit-on", "test.npz", "--allow-same")
    assert "Fitted on the file it is judged by" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "give either --fit-on FILE"),
        (["--fit-on", "val.npz", "--load-scaling", "s.json"], "give either --fit-on FILE"),
        (["--load-scaling", "s.json"], "--load-scaling s.json: there is no such file"),
        (["--fit-on", "val.npz", "-o", "fixed.csv"], "--output fixed.csv must end in .npz"),
        (["--fit-on", "val.npz", "-o", "test.npz"], "--output test.npz is a file that is read from"),
        (["--fit-on", "val.npz", "-o", "val.npz"], "--output val.npz is a file that is read from"),
        (["--fit-on", "absent.npz"], "absent.npz: there is no such file"),
        (["--fit-on", "three.npz"], "three.npz has 3 classes and test.npz has 4"),
        (["--fit-on", "turned.npz"], "class 0 is 'd' in the one and 'a' in the other"),
        (["--fit-on", "val.npz", "--bins", "0"], "--bins must be a whole number of at least 1, got 0"),
    ],
)
def test_mistakes_in_calibrate(args: list[str], message: str, place: Path) -> None:
    logits, labels = calibrated(2, 50)
    np.savez("three.npz", logits=logits[:, :3], labels=labels % 3)
    np.savez("turned.npz", logits=logits, labels=labels, class_names=list("dcba"))
    with pytest.raises(ValueError, match=re.escape(message)):
        run(calibrate, "test.npz", *args)
    assert not Path("fixed.npz").exists()


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
