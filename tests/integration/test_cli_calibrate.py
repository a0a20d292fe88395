"""``singleshot calibrate`` as a user runs it."""

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
    assert found["evaluated_on_fit_file"] is False
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
    assert "Before: Overconfident by" in shown
    assert shown.endswith("Predictions: again.npz, in the order of the rows, without other columns\n")
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


def test_other_methods_and_probabilities_in_another_format(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunk = read_predictions("test.npz").load()
    probs = oracle.softmax(chunk.scores.astype(np.float64))
    rows = [
        ",".join(map(repr, row)) + f",{'abcd'[label]}" for row, label in zip(probs.tolist(), chunk.labels, strict=True)
    ]
    Path("test.csv").write_text("\n".join(["prob_a,prob_b,prob_c,prob_d,label", *rows]))
    for method in ("vector", "matrix", "isotonic", "histogram"):
        run(calibrate, "test.csv", "--fit-on", "val.npz", "--method", method, "-o", "fixed.npz", "--json")
        found = shown_json(capsys)
        assert found["method"] == method
        assert found["after"]["nll"] < found["before"]["nll"], method
        calibration = ss.Calibration()
        for batch in read_predictions("fixed.npz").batches(100):
            calibration.update(**batch)
        assert calibration.compute().ece == pytest.approx(found["after"]["ece"], abs=1e-9), method


def test_a_fitting_set_with_a_missing_class_gives_a_warning(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunk = read_predictions("val.npz").load()
    kept = chunk.labels != 2
    np.savez("few.npz", logits=chunk.scores[kept], labels=chunk.labels[kept], class_names=list("abcd"))
    run(calibrate, "test.npz", "--fit-on", "few.npz")  # the temperature needs no example of every class
    with pytest.warns(UserWarning, match="class 2 has no example in the fitting set"):
        run(calibrate, "test.npz", "--fit-on", "few.npz", "--method", "vector")


def test_fitting_on_the_evaluated_file_needs_a_flag(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("link.npz").symlink_to("test.npz")
    for same in ("test.npz", "./test.npz", "link.npz"):
        with pytest.raises(ValueError, match="is also the file to fit on"):
            run(calibrate, "test.npz", "--fit-on", same)
    run(calibrate, "test.npz", "--fit-on", "test.npz", "--allow-same")
    assert "Fitted on the evaluated file" in capsys.readouterr().out


INVALID: list[tuple[list[str], str]] = [
    ([], "set either --fit-on FILE"),
    (["--fit-on", "val.npz", "--load-scaling", "s.json"], "set either --fit-on FILE"),
    (["--load-scaling", "s.json"], "s.json: no such file"),
    (["--fit-on", "val.npz", "-o", "fixed.tsv"], "--output fixed.tsv must end in .npz or .csv"),
    (["--fit-on", "val.npz", "-o", "test.npz"], "--output test.npz is also an input"),
    (["--fit-on", "val.npz", "-o", "val.npz"], "--output val.npz is also an input"),
    (["--fit-on", "val.npz", "--save-scaling", "s.npz"], "--save-scaling s.npz must end in .json"),
    (["--fit-on", "absent.npz"], "absent.npz: no such file"),
    (["--fit-on", "three.npz"], "three.npz has 3 classes, test.npz has 4"),
    (["--fit-on", "turned.npz"], "class 0 is 'd' and 'a'"),
    (["--fit-on", "val.npz", "--bins", "0"], "--bins must be "),
]


def test_invalid_arguments(place: Path) -> None:
    logits, labels = calibrated(2, 50)
    np.savez("three.npz", logits=logits[:, :3], labels=labels % 3)
    np.savez("turned.npz", logits=logits, labels=labels, class_names=list("dcba"))
    for args, message in INVALID:
        with pytest.raises(ValueError, match=re.escape(message)):
            run(calibrate, "test.npz", *args)
        assert not Path("fixed.npz").exists()


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Scores and labels of val and test, with equal numbers of examples, as .npy pairs and as .npz files."""
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(["val", "test"]):
        logits, labels = calibrated(seed, 300)
        np.save(f"{name}_logits.npy", logits * 3)
        np.save(f"{name}_y.npy", labels)
        np.savez(f"{name}.npz", logits=logits * 3, labels=labels, y=labels)
    return tmp_path


def test_each_file_has_its_own_labels(pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = ("test_logits.npy", "--labels", "test_y.npy", "--fit-on", "val_logits.npy")
    with pytest.raises(ValueError, match=r"--fit-on val_logits\.npy holds scores only; .* --fit-labels"):
        run(calibrate, *pair)
    temperatures = []
    for args in (
        (*pair, "--fit-labels", "val_y.npy"),
        ("test_logits.npy", "--labels", "test_y.npy", "--fit-on", "val.npz"),  # its own labels, not test_y.npy
        ("test.npz", "--labels", "y", "--fit-on", "val.npz"),
        ("test.npz", "--fit-on", "val_logits.npy", "--fit-labels", "val_y.npy"),
    ):
        run(calibrate, *args, "--json")
        temperatures.append(shown_json(capsys)["temperature"])
    assert temperatures == pytest.approx([temperatures[0]] * 4, rel=1e-9)
    assert 2 < temperatures[0] < 4.5


def test_inputs_are_never_overwritten(pairs: Path) -> None:
    links = {"link.json": "test_logits.npy", "labels.json": "test_y.npy", "fit.json": "val_logits.npy"}
    for link, target in {**links, "val_y.npz": "val_y.npy"}.items():
        Path(link).symlink_to(target)
    before = {path.name: path.read_bytes() for path in pairs.iterdir()}
    known = ["test_logits.npy", "--labels", "test_y.npy", "--fit-on", "val_logits.npy", "--fit-labels", "val_y.npy"]
    for flag, path in (*(("--save-scaling", link) for link in links), ("--output", "val_y.npz")):
        with pytest.raises(ValueError, match=re.escape(f"{flag} {path} is also an input")):
            run(calibrate, *known, flag, path)
    assert {path.name: path.read_bytes() for path in pairs.iterdir()} == before
    run(calibrate, "test.npz", "--fit-on", "val.npz", "--save-scaling", "s.json")
    with pytest.raises(ValueError, match=r"--save-scaling s\.json is also an input"):
        run(calibrate, "test.npz", "--load-scaling", "s.json", "--save-scaling", "./s.json")


def test_labels_that_do_not_fit_are_reported_first(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logits, labels = calibrated(2, 1500)
    for name, shift in (("shifted", 1), ("sure", 0)):
        np.savez(f"{name}.npz", logits=logits * 9, labels=(labels + shift) % 4)
    run(calibrate, "shifted.npz", "--fit-on", "sure.npz")
    said = capsys.readouterr().out
    assert said.startswith("shifted.npz: Check the labels: they look counted from 1: only ")
    assert said.count("Check the labels") == 1
    run(calibrate, "sure.npz", "--fit-on", "shifted.npz", "--method", "histogram", "--json")
    assert list(shown_json(capsys)["label_faults"]) == ["shifted.npz"]
    run(calibrate, "sure.npz", "--fit-on", "val.npz", "--json")
    assert "label_faults" not in shown_json(capsys)


def test_a_calibration_that_makes_things_worse_says_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logits, labels = calibrated(2, 1500)
    np.savez("calibrated.npz", logits=logits, labels=labels)
    run(calibrate, "calibrated.npz", "--fit-on", "val.npz")
    said = capsys.readouterr().out
    assert "This calibration makes NLL and ECE worse: do not use it for these predictions." in said
    assert said.endswith("Nothing was written: set -o FILE to write the calibrated predictions.\n")
    run(calibrate, "test.npz", "--fit-on", "val.npz", "--save-scaling", "s.json")
    said = capsys.readouterr().out
    assert "worse" not in said
    assert "Nothing was written" not in said


def test_fitting_on_few_examples_says_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logits, labels = calibrated(2, 29)
    np.savez("few.npz", logits=logits, labels=labels)
    run(calibrate, "test.npz", "--fit-on", "few.npz")
    assert "Too few examples to fit on (29); hundreds are needed." in capsys.readouterr().out
    run(calibrate, "test.npz", "--fit-on", "val.npz")
    assert "Too few" not in capsys.readouterr().out


def test_a_csv_file_is_written_and_read_back(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(calibrate, "test.npz", "--fit-on", "val.npz", "-o", "fixed.npz")
    run(calibrate, "test.npz", "--fit-on", "val.npz", "-o", "fixed.csv")
    table, arrays = read_predictions("fixed.csv"), read_predictions("fixed.npz")
    assert table.class_names == arrays.class_names
    for one, other in zip(table.load()[:2], arrays.load()[:2], strict=True):
        np.testing.assert_array_equal(one, other)
    logits, labels = calibrated(2, 50)
    np.savez("numbers.npz", logits=logits, labels=labels)
    run(calibrate, "numbers.npz", "--fit-on", "val.npz", "-o", "fixed.csv")
    np.testing.assert_array_equal(read_predictions("fixed.csv").load().labels, labels)
    np.savez("odd.npz", logits=logits, labels=labels, class_names=list("1234"), labels_are=["indices"])
    with pytest.raises(ValueError, match=r"fixed\.csv: .* would be ambiguous; write \.npz"):
        run(calibrate, "odd.npz", "--fit-on", "numbers.npz", "-o", "fixed.csv")
