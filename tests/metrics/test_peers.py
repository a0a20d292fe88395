"""The estimators agree with other implementations, except where docs/predictions.md says why not.

Each test is skipped without its library: ``pip install 'singleshot[bench]'``.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import oracle
from singleshot.metrics import Calibration, CalibrationResult, Examples, adaptive_ece, debiased_ece, smooth_ece
from singleshot.metrics.binning import debiased_square_error, gaps_of
from singleshot.metrics.estimates import Estimator
from singleshot.metrics.resampling import binned

Array = NDArray[Any]
BINS, CLASSES = 20, 10


def peer(name: str) -> Any:
    """Import a library, or skip the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, exc_type=ImportError)


@cache
def made(scale: float, saturated: float = 0.0) -> tuple[Array, Array]:
    """Return probabilities of a classifier whose logits are ``scale`` times too large, and labels.

    A share of the confidences is exactly 1.
    """
    generator = np.random.default_rng(1)
    logits = generator.normal(size=(4000, CLASSES)) * 2
    cumulative = oracle.softmax(logits).cumsum(1)
    labels = (generator.random((4000, 1)) < cumulative).argmax(1)
    logits *= scale
    rows = generator.random(4000) < saturated
    logits[rows, logits[rows].argmax(1)] += 60
    return oracle.softmax(logits), labels


def evaluated(probs: Array, labels: Array) -> tuple[CalibrationResult, Examples]:
    calibration = Calibration(bins=BINS, classwise=True)
    calibration.update(probs=probs, labels=labels)
    return calibration.compute(), Examples.of(probs=probs, labels=labels)


@pytest.mark.parametrize("scale", [1.0, 1.5])
@pytest.mark.parametrize("saturated", [0.0, 0.3])
def test_netcal(scale: float, saturated: float) -> None:
    metrics = peer("netcal.metrics")
    probs, labels = made(scale, saturated)
    result, _ = evaluated(probs, labels)
    assert metrics.ECE(BINS).measure(probs, labels) == pytest.approx(result.ece, abs=1e-12)
    assert metrics.MCE(BINS).measure(probs, labels) == pytest.approx(result.mce, abs=1e-12)


def torchmetrics_errors(probs: Array, labels: Array) -> list[float]:
    functional = peer("torchmetrics.functional.classification")
    arrays = torch.from_numpy(probs), torch.from_numpy(labels)
    error = functional.multiclass_calibration_error
    return [float(error(*arrays, CLASSES, n_bins=BINS, norm=norm)) for norm in ("l1", "max", "l2")]


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_torchmetrics(scale: float) -> None:
    result, _ = evaluated(*made(scale))
    expected = [result.ece, result.mce, result.rmsce]
    assert torchmetrics_errors(*made(scale)) == pytest.approx(expected, abs=1e-6)  # it computes in float32


def test_torchmetrics_puts_a_confidence_of_1_into_a_bin_of_its_own() -> None:
    probs, labels = made(1.5, 0.3)
    result, _ = evaluated(probs, labels)
    confidence, correct = probs.max(1), probs.argmax(1) == labels
    group = np.minimum((confidence * BINS).astype(int), BINS)  # BINS is the bin of confidence 1
    share = np.bincount(group) / len(group)
    gap = np.bincount(group, confidence - correct) / np.maximum(np.bincount(group), 1)
    with_own_bin = [(share * np.abs(gap)).sum(), np.abs(gap).max(), np.sqrt((share * gap**2).sum())]
    found = torchmetrics_errors(probs, labels)
    assert found == pytest.approx(with_own_bin, abs=1e-6)
    assert abs(found[2] / result.rmsce - 1) > 0.02


@pytest.mark.parametrize("scale", [1.0, 1.5])
@pytest.mark.parametrize("saturated", [0.0, 0.3])
def test_kumar(scale: float, saturated: float) -> None:
    calibration = peer("calibration")
    probs, labels = made(scale, saturated)
    result, examples = evaluated(probs, labels)
    assert calibration.get_ece(probs, labels, num_bins=BINS) == pytest.approx(result.ece, abs=1e-12)
    if not saturated:  # equal confidences share a bin here, and are divided among bins there
        assert calibration.get_ece_em(probs, labels, num_bins=BINS) == pytest.approx(adaptive_ece(examples), abs=1e-12)
    confidence, correct = probs.max(1), (probs.argmax(1) == labels).astype(float)
    data = list(zip(confidence, correct, strict=True))
    in_bins = calibration.utils.bin(data, [(k + 1) / BINS for k in range(BINS)])
    estimator = Estimator(examples, BINS)
    gaps = gaps_of(binned(estimator.own.cells, estimator.table.width_bins))
    # The variance of a bin of n examples is divided by n + 1 with a pseudo-example here, and by n − 1 there.
    expected = calibration.utils.unbiased_square_ce(in_bins)
    assert float(debiased_square_error(gaps)) == pytest.approx(expected, abs=3e-5)


def test_the_debiased_ece_is_nearer_to_0_than_kumars_for_a_calibrated_classifier() -> None:
    calibration = peer("calibration")
    _, examples = evaluated(*made(1.0))
    np.random.seed(0)  # noqa: NPY002  # its resamples
    theirs = calibration.get_ece_em(*made(1.0), debias=True, num_bins=BINS)
    assert 0 <= debiased_ece(examples, BINS) < theirs


@pytest.mark.parametrize("bandwidth", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_relplot(scale: float, bandwidth: float) -> None:
    relplot = peer("relplot")
    probs, labels = made(scale)
    confidence, correct = probs.max(1), (probs.argmax(1) == labels).astype(float)
    found = smooth_ece(Examples.of(probs=probs, labels=labels), bandwidth=bandwidth)
    assert relplot.smECE_sigma(confidence, correct, bandwidth) == pytest.approx(found, abs=1e-3)


def test_relplot_loses_a_part_of_the_confidences_of_1() -> None:
    relplot = peer("relplot")
    probs, labels = made(1.5, 0.3)
    confidence, correct = probs.max(1), (probs.argmax(1) == labels).astype(float)
    at_least = abs(float((confidence - correct).mean()))  # smoothing moves the gaps, and does not change their sum
    assert smooth_ece(Examples.of(probs=probs, labels=labels), bandwidth=0.05) >= at_least - 1e-9
    assert relplot.smECE_sigma(confidence, correct, 0.05) < at_least - 0.01
