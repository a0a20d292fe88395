"""What a pass over a file computes, keeps and leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle
import singleshot.evaluation.evaluation as evaluation_module
from predictions.files import WRITERS, predictions
from singleshot.evaluation.evaluation import evaluate_predictions
from singleshot.metrics import Examples, bootstrap
from singleshot.predictions import read_predictions


@pytest.mark.parametrize("classes", [1, 3, 40])  # few of them are laid out by class
@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("name", ["npz", "csv", "parquet"])
def test_the_metrics_are_those_of_the_oracle(name: str, kind: str, classes: int, tmp_path: Path) -> None:
    scores, labels = predictions(60, classes, kind, np.float64)
    path, told = WRITERS[name](tmp_path, scores, labels, kind)
    found = evaluate_predictions(read_predictions(path, **told), bins=9, replicates=30, classwise=True)
    probs = oracle.softmax(scores) if kind == "logits" else scores
    expected = oracle.calibration(probs, labels, 9)
    metrics = found.metrics()
    for metric in ("accuracy", "ece", "mce", "rmsce", "nll", "brier", "mean_confidence", "overconfidence"):
        assert metrics[metric] == pytest.approx(expected[metric], abs=1e-10), metric
    assert metrics["classwise_ece"] == pytest.approx(oracle.classwise_ece(probs, labels, 9), abs=1e-10)
    whole = Examples.of(labels=labels, **{kind: scores})
    assert found.intervals == bootstrap(whole, replicates=30, bins=9)
    assert found.consistency is not None


def test_the_classwise_error_has_an_interval_where_there_are_examples_enough(tmp_path: Path) -> None:
    for rows, is_enough in ((599, False), (600, True)):
        scores, labels = predictions(rows, 3, "logits", np.float64)
        path, _ = WRITERS["npz"](tmp_path, scores, labels, "logits")
        found = evaluate_predictions(read_predictions(path), replicates=30, classwise=True)
        assert ("classwise_ece" in found.intervals) == is_enough
        assert any("200 examples per class" in remark for remark in found.remarks()) != is_enough
    interval = found.intervals["classwise_ece"]
    assert interval.estimate == pytest.approx(found.metrics()["classwise_ece"], abs=1e-12)
    assert interval.low <= interval.high


def test_intervals_are_left_out_where_they_would_take_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, labels = predictions(60, 3, "logits")
    for name in ("npz", "csv"):  # one tells its length beforehand, the other does not
        path, _ = WRITERS[name](tmp_path, scores, labels, "logits")
        file = read_predictions(path)
        monkeypatch.setattr(evaluation_module, "MOST_RESAMPLED", 60)
        assert evaluate_predictions(file).intervals
        monkeypatch.setattr(evaluation_module, "MOST_RESAMPLED", 59)
        left_out = evaluate_predictions(file)
        assert (left_out.examples, left_out.intervals, left_out.consistency) == (None, {}, None)
        assert left_out.result.count == 60
        asked_for = evaluate_predictions(file, replicates=5)
        assert asked_for.intervals
        assert evaluate_predictions(file, replicates=0).examples is None
        kept = evaluate_predictions(file, replicates=0, keep_examples=True)
        assert kept.examples is not None
        assert not kept.intervals


def test_point_estimates_do_not_need_replicates(tmp_path: Path) -> None:
    path, _ = WRITERS["npz"](tmp_path, *predictions(60, 3, "logits"), "logits")
    plain = evaluate_predictions(read_predictions(path), replicates=0)
    assert plain.intervals == {}
    assert plain.metrics() == evaluate_predictions(read_predictions(path), replicates=20).metrics()
    assert {"aurc", "debiased_ece", "adaptive_ece", "smooth_ece"} <= set(plain.metrics())


def test_few_examples_get_estimates_without_intervals(tmp_path: Path) -> None:
    for rows, some in ((1, False), (29, False), (30, True)):
        path, _ = WRITERS["npz"](tmp_path, *predictions(rows, 3, "logits"), "logits")
        found = evaluate_predictions(read_predictions(path), replicates=20)
        assert bool(found.intervals) is some
        assert bool(found.remarks()) is not some
        assert "aurc" in found.metrics()


@pytest.mark.parametrize(
    ("scores", "labels", "accuracy"),
    [
        (np.array([[1e30, -1e30]] * 30), np.zeros(30, int), 1.0),  # huge logits
        (np.array([[6e4, -6e4]] * 30, np.float16), np.ones(30, int), 0.0),  # all wrong
        (np.array([[3e38, 3e38]] * 30, np.float32), np.zeros(30, int), 1.0),  # a sum that overflows
    ],
)
def test_edges(scores: Any, labels: Any, accuracy: float, tmp_path: Path) -> None:
    path, _ = WRITERS["npz"](tmp_path, scores, labels, "logits")
    found = evaluate_predictions(read_predictions(path), replicates=10)
    assert found.result.accuracy == accuracy
    assert found.intervals["accuracy"].low <= accuracy <= found.intervals["accuracy"].high


def test_a_label_of_probability_zero_has_an_infinite_nll_without_an_interval(tmp_path: Path) -> None:
    path, _ = WRITERS["npz"](tmp_path, np.array([[1.0, 0.0], [0.5, 0.5]] * 15), np.array([1, 0] * 15), "probs")
    found = evaluate_predictions(read_predictions(path), replicates=10)
    assert found.metrics()["nll"] == np.inf
    assert np.isnan(found.intervals["nll"].low)
