"""The torchmetrics metric has the values of Calibration, however the batches are added."""

from __future__ import annotations

import pickle

import pytest
import torch

import singleshot as ss

torchmetrics = pytest.importorskip("torchmetrics")

from singleshot.integrations.torchmetrics import CalibrationMetric  # noqa: E402

LOGITS = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(50) % 4


def expected(bins: int = 20) -> dict[str, float]:
    calibration = ss.Calibration(bins)
    calibration.update(logits=LOGITS, labels=LABELS)
    return calibration.compute().metrics()


def values(metric: CalibrationMetric) -> dict[str, float]:
    return {name: float(value) for name, value in metric.compute().items()}


def test_batches_merge_reset_and_pickle() -> None:
    metric = CalibrationMetric(bins=15)
    for rows in (slice(0, 20), slice(20, 50)):
        metric.update(LOGITS[rows], LABELS[rows])
    assert values(metric) == pytest.approx(expected(15), rel=1e-6)
    assert values(pickle.loads(pickle.dumps(metric))) == values(metric)
    other = CalibrationMetric(bins=15)
    other.update(LOGITS, LABELS)
    metric.merge_state(other)  # twice the examples, the same means
    assert values(metric) == pytest.approx(expected(15), rel=1e-6)
    assert metric.result().count == 100
    metric.reset()
    metric.update(LOGITS.softmax(1).log(), LABELS)
    assert values(metric) == pytest.approx(expected(15), abs=1e-6)


def test_the_value_of_a_batch_and_a_collection() -> None:
    collection = torchmetrics.MetricCollection(
        {"calibration": CalibrationMetric(kind="probs"), "top": torchmetrics.Accuracy("multiclass", num_classes=4)}
    )
    found = collection(LOGITS.softmax(1), LABELS)
    assert float(found["top"]) == pytest.approx(float(found["accuracy"]))
    assert float(found["ece"]) == pytest.approx(expected()["ece"], abs=1e-6)


def test_ignored_labels_are_left_out() -> None:
    metric = CalibrationMetric(ignore_index=-100)
    metric.update(torch.cat([LOGITS, LOGITS]), torch.cat([LABELS, torch.full((50,), -100)]))
    assert values(metric) == pytest.approx(expected(), rel=1e-6)
    assert metric.result().count == 50


def test_errors() -> None:
    with pytest.raises(ValueError, match="kind='scores' is unknown"):
        CalibrationMetric(kind="scores")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bins must be"):
        CalibrationMetric(bins=0)
    metric = CalibrationMetric(kind="probs")
    with pytest.raises(ValueError, match="probs must lie in"):
        metric.update(LOGITS, LABELS)
