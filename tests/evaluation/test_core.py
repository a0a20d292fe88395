"""Metrics, intervals and notes of an evaluation, from arrays and from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import oracle
from integration.overconfident import calibrated
from predictions.files import WRITERS, predictions
from singleshot.evaluation import evaluation as core
from singleshot.evaluation.evaluation import Evaluation, evaluate_batches, evaluate_file
from singleshot.metrics import Examples, bootstrap
from singleshot.predictions import read_predictions


def evaluate_logits(rows: int, classes: int = 3, **options: Any) -> Evaluation:
    scores, labels = predictions(rows, classes, "logits")
    return evaluate_batches([{"logits": scores, "labels": labels}], **options)


@pytest.mark.parametrize("name", ["npz", "csv", "parquet"])
def test_metrics_of_files_and_arrays_match_the_oracle(name: str, tmp_path: Path) -> None:
    for kind, classes in (("logits", 2), ("probs", 3), ("logits", 40)):  # scores of few classes are column-major
        scores, labels = predictions(60, classes, kind, np.float64)
        path, options = WRITERS[name](tmp_path, scores, labels, kind)
        found = evaluate_file(read_predictions(path, **options), bins=9, replicates=30, classwise=True)
        probs = oracle.softmax(scores) if kind == "logits" else scores
        expected = oracle.calibration(probs, labels, 9)
        metrics = found.metrics()
        for metric in ("accuracy", "ece", "mce", "rmsce", "nll", "brier", "mean_confidence", "overconfidence"):
            assert metrics[metric] == pytest.approx(expected[metric], abs=1e-10), (metric, kind, classes)
        assert metrics["classwise_ece"] == pytest.approx(oracle.classwise_ece(probs, labels, 9), abs=1e-10)
        whole = Examples.of(labels=labels, **{kind: scores})
        assert found.intervals == bootstrap(whole, replicates=30, bins=9)
        arrays: Any = {kind: torch.from_numpy(scores), "labels": torch.from_numpy(labels)}
        in_memory = evaluate_batches([arrays], bins=9, replicates=30, classwise=True)
        assert in_memory.metrics() == metrics
        assert in_memory.intervals == found.intervals


def test_the_classwise_ece_has_an_interval_with_enough_examples() -> None:
    for rows, is_enough in ((599, False), (600, True)):
        found = evaluate_logits(rows, replicates=30, classwise=True)
        assert ("classwise_ece" in found.intervals) == is_enough
        assert any("200 examples per class" in note for note in found.notes()) != is_enough
    interval = found.intervals["classwise_ece"]
    assert interval.estimate == pytest.approx(found.metrics()["classwise_ece"], abs=1e-12)


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 2.0])
def test_every_interval_contains_its_estimate(sharpness: float) -> None:
    for seed in range(4):
        logits, labels = calibrated(seed, 1000)
        batch = {"logits": sharpness * logits, "labels": labels}
        found = evaluate_batches([batch], replicates=100, classwise=True)
        assert {"classwise_ece", "rmsce", "mce", "ece"} <= set(found.intervals)
        estimates = {name: one.estimate for name, one in found.intervals.items()}
        assert estimates == pytest.approx({name: found.metrics()[name] for name in estimates}, abs=1e-12)
        outside = [name for name, one in found.intervals.items() if not one.low <= one.estimate <= one.high]
        assert outside == []


def test_intervals_of_many_examples_are_computed_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, labels = predictions(60, 3, "logits")
    for name in ("npz", "csv"):
        path, _ = WRITERS[name](tmp_path, scores, labels, "logits")
        file = read_predictions(path)
        monkeypatch.setattr(core, "MAX_RESAMPLED", 60)
        assert evaluate_file(file).intervals
        monkeypatch.setattr(core, "MAX_RESAMPLED", 59)
        without = evaluate_file(file)
        assert (without.examples, without.intervals) == (None, {})
        assert without.result.count == 60
        assert evaluate_file(file, replicates=5).intervals
        assert evaluate_file(file, replicates=0).examples is None
        kept = evaluate_file(file, replicates=0, keep_examples=True)
        assert kept.examples is not None
        assert not kept.intervals


def test_point_estimates_do_not_need_replicates() -> None:
    plain = evaluate_logits(60, replicates=0)
    assert plain.intervals == {}
    assert plain.metrics() == evaluate_logits(60, replicates=20).metrics()
    assert {"aurc", "debiased_ece", "adaptive_ece", "smooth_ece"} <= set(plain.metrics())
    for rows, has_intervals in ((1, False), (29, False), (30, True)):
        found = evaluate_logits(rows, replicates=20)
        assert bool(found.intervals) is has_intervals
        assert bool(found.notes()) is not has_intervals
        assert "aurc" in found.metrics()


def test_extreme_scores() -> None:
    cases: list[tuple[Any, Any, float]] = [
        (np.array([[1e30, -1e30]] * 30), np.zeros(30, int), 1.0),  # huge logits
        (np.array([[6e4, -6e4]] * 30, np.float16), np.ones(30, int), 0.0),  # all wrong
        (np.array([[3e38, 3e38]] * 30, np.float32), np.zeros(30, int), 1.0),  # a sum that overflows
    ]
    for scores, labels, accuracy in cases:
        found = evaluate_batches([{"logits": scores, "labels": labels}], replicates=10)
        assert found.result.accuracy == accuracy
        assert found.intervals["accuracy"].low <= accuracy <= found.intervals["accuracy"].high
    # a label with probability 0 has an infinite NLL without an interval
    probs = np.array([[1.0, 0.0], [0.5, 0.5]] * 15)
    found = evaluate_batches([{"probs": probs, "labels": np.array([1, 0] * 15)}], replicates=10)
    assert found.metrics()["nll"] == np.inf
    assert np.isnan(found.intervals["nll"].low)
    content = found.to_dict()
    assert (content["nll"], content["nll_is_infinite"], content["intervals"]["nll"]["low"]) == (None, True, None)


def test_labels_of_probability_0_are_counted_across_batches() -> None:
    probs, right = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1])
    found = evaluate_batches(({"probs": probs, "labels": right} for _ in range(7)), replicates=0)
    assert (found.impossible, found.impossible_rows) == (7, (1, 3, 5, 7, 9))
    none = evaluate_batches([{"probs": probs, "labels": right * 0}], replicates=0)
    assert (none.impossible, none.impossible_rows) == (0, ())
