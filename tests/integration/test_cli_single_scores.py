"""Commands on files with one score per example: of the predicted class, or of the positive class."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
import torch

from predictions.kinds import DIAGNOSES, cancer, digits
from singleshot.cli.main import main
from singleshot.posthoc import HistogramBinning, IsotonicScaling
from singleshot.predictions import read_predictions


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    probs, labels = digits()
    table = pd.DataFrame({"true_label": labels, "pred_label": probs.argmax(1), "confidence": probs.max(1)})
    table[:200].to_csv("val.csv", index=False)
    table[200:].to_csv("test.csv", index=False)
    positive, truth = cancer()
    pd.DataFrame({"label": DIAGNOSES[truth], "prob_benign": positive}).to_csv("binary.csv", index=False)


def fails(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_evaluate_says_what_the_predicted_class_alone_cannot_tell(capsys: pytest.CaptureFixture[str]) -> None:
    main(["evaluate", "test.csv", "--classwise", "--replicates", "20", "--accuracy", "0.6"])
    said = capsys.readouterr().out
    assert "200 examples, 10 classes, confidence of the predicted class" in said
    assert "NLL, Brier score and classwise ECE need the probability of every class" in said
    assert "AURC" in said
    assert not any(line.strip().startswith(("NLL ", "Brier ")) for line in said.splitlines())
    main(["evaluate", "test.csv", "--json", "--replicates", "0"])
    found = json.loads(capsys.readouterr().out)
    assert found["nll"] is None
    assert found["top_class_only"] is True


@pytest.mark.parametrize(("method", "scaling"), [("histogram", HistogramBinning), ("isotonic", IsotonicScaling)])
def test_calibrate_the_confidence(
    method: str, scaling: type[HistogramBinning | IsotonicScaling], capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["calibrate", "test.csv", "--json"]
    main([*common, "--fit-on", "val.csv", "--method", method, "-o", "fixed.npz", "--save-scaling", "s.json"])
    found = json.loads(capsys.readouterr().out)
    assert found["after"]["ece"] < found["before"]["ece"]
    main([*common, "--load-scaling", "s.json"])
    assert json.loads(capsys.readouterr().out)["after"] == found["after"]
    main(["evaluate", "fixed.npz", "--json", "--replicates", "0"])
    assert json.loads(capsys.readouterr().out)["ece"] == found["after"]["ece"]

    fixed, test, val = (read_predictions(name).load() for name in ("fixed.npz", "test.csv", "val.csv"))
    assert val.predicted is not None
    order = np.argsort(val.scores[:, 0])
    confidence, correct = val.scores[order, 0], np.equal(val.predicted, val.labels)[order].astype(float)
    if method == "isotonic":
        from sklearn.isotonic import isotonic_regression

        x, start = np.unique(confidence, return_index=True)
        weight = np.diff(np.append(start, len(confidence)))
        y = isotonic_regression(np.add.reduceat(correct, start) / weight, sample_weight=weight)
        expected = np.interp(test.scores[:, 0], x, y)
    else:
        starts = [0]
        for cut in range(1, 15):
            first = int(np.searchsorted(confidence, confidence[cut * 200 // 15]))
            starts += [first] if first > starts[-1] else []
        edges = [(confidence[s - 1] + confidence[s]) / 2 for s in starts[1:]]
        means = np.add.reduceat(correct, starts) / np.diff([*starts, 200])
        expected = means[np.searchsorted(edges, test.scores[:, 0])]
    expected = (expected + (test.scores[:, 0] + 0.5) / 2 / 201) / (1 + 1 / 201)
    np.testing.assert_allclose(fixed.scores[:, 0], expected, atol=1e-12)
    with pytest.raises(ValueError, match="classes of the fit"):
        scaling.load("s.json")(torch.zeros(2, 3))


def test_a_temperature_needs_the_scores_of_every_class(capsys: pytest.CaptureFixture[str]) -> None:
    said = fails(capsys, "calibrate", "test.csv", "--fit-on", "val.csv")
    assert "temperature scaling needs the scores of every class; use --method histogram or --method isotonic" in said
    said = fails(capsys, "calibrate", "binary.csv", "--fit-on", "val.csv", "--method", "histogram")
    assert "val.csv has confidence, binary.csv has probs; fit on the same kind" in said


def test_a_copy_of_the_evaluated_file_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy("test.csv", "held-out.csv")
    said = fails(capsys, "calibrate", "test.csv", "--fit-on", "held-out.csv", "--method", "histogram")
    assert "test.csv is a copy of held-out.csv, the file to fit on" in said
    main(["calibrate", "test.csv", "--fit-on", "held-out.csv", "--method", "histogram", "--allow-same"])
    assert "Fitted on the evaluated file" in capsys.readouterr().out


def test_a_binary_file_has_a_decision_and_a_positive_class(capsys: pytest.CaptureFixture[str]) -> None:
    main(["evaluate", "binary.csv", "--replicates", "20"])
    said = capsys.readouterr().out
    assert "569 examples, 2 classes, probs of benign" in said
    assert "Positive class benign: ECE 0.0447, mean probability 0.6176, frequency 0.6274." in said
    main(["evaluate", "binary.csv", "--replicates", "0", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["positive_class"]["name"] == "benign"
    assert found["positive_class"]["accuracy"] == pytest.approx(cancer()[1].mean())
    main(["calibrate", "binary.csv", "--fit-on", "binary.csv", "--allow-same", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["after"]["nll"] < found["before"]["nll"]


def test_report(capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", "test.csv", "binary.csv", "-o", "r.html", "--replicates", "20", "--json"])
    page = json.loads(capsys.readouterr().out)
    top, binary = page["models"]
    assert top["metrics"]["nll"]["estimate"] is None
    assert top["metrics"]["ece"]["estimate"] > 0.2
    assert {one["class"] for one in top["classes_by_gap"]} <= set("0123456789")
    assert {one["class"] for one in binary["classes_by_gap"]} == {"malignant", "benign"}


def test_an_infinite_nll_names_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    certain = np.eye(2)[[0, 1, 0, 1, 0, 0, 0]]
    np.savez("a.npz", probs=certain, labels=np.array([0, 0, 0, 1, 0, 1, 0]))
    main(["evaluate", "a.npz"])
    said = capsys.readouterr().out
    assert "The NLL is infinite: 2 examples gave probability 0 to the right class, rows 1, 5 (counted from 0)." in said
