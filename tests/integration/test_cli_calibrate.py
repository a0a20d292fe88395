"""Calibrating files of predictions as a user does it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle
import singleshot as ss
from integration.overconfident import calibrated, run, shown_json, write_overconfident
from singleshot.cli.calibrate import calibrate
from singleshot.predictions import read_predictions


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_overconfident(tmp_path)
    return tmp_path


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
