"""What a threshold gives: the risk–coverage curve, the paper's coverage curve, and thresholds with a guarantee."""

from __future__ import annotations

from typing import Any

import numpy as np

from singleshot.metrics.binning import bin_index, sum_by_bin
from singleshot.metrics.calibration import CalibrationResult
from singleshot.metrics.examples import Examples
from singleshot.metrics.selective import STARTS, THRESHOLDS, accepted_at, risk_coverage, threshold_bounds

MOST_POINTS = 400
EXPLORED = (
    *(k / 1000 for k in range(1000)),
    *(k / 10_000 for k in range(9991, 10_000)),
    *(k / 100_000 for k in range(99_991, 100_001)),
)
"""Thresholds that a reader can try, ever finer where confidences crowd; those of guarantees are among them."""
CERTAINTY = 0.95


def risk_coverage_points(examples: Examples) -> dict[str, Any]:
    """The risk–coverage curve at no more points than an eye can tell, evenly spread over the coverage; its whole area.

    The first and the last point are always among them.
    """
    curve = risk_coverage(examples)
    shares = np.linspace(curve.coverage[0], 1, MOST_POINTS)
    at = np.unique(np.clip(np.searchsorted(curve.coverage, shares), 0, len(curve.coverage) - 1))
    return {
        "coverage": curve.coverage[at].tolist(),
        "risk": curve.risk[at].tolist(),
        "aurc": curve.aurc,
    }


def coverage_points(result: CalibrationResult) -> dict[str, Any]:
    """At each bin's lower edge the share of examples above it whose bin is right more often than it says (Fig. 5)."""
    return {"threshold": result.bins.lower.tolist(), "coverage": result.bins.coverage().tolist()}


def threshold_counts(examples: Examples) -> dict[str, list[int]]:
    """How many examples each explored threshold accepts, and how many of these are right."""
    accepted, correct = accepted_at(examples, EXPLORED)
    return {"accepted": accepted.tolist(), "correct": correct.tolist()}


def guarantee_rules() -> dict[str, Any]:
    """What the page needs to walk to a threshold as `singleshot.metrics.threshold_for_accuracy` does."""
    return {
        "certainty": CERTAINTY,
        "thresholds": list(THRESHOLDS),
        "starts": [THRESHOLDS.index(start) for start in STARTS],
    }


def sure_accuracies(examples: Examples) -> list[float]:
    """The accuracy that each threshold of a guarantee is sure of."""
    return [float(bound) for bound in threshold_bounds(examples, confidence=CERTAINTY).lower]


FINE_BINS = 1200
BIN_CHOICES = (5, 6, 8, 10, 12, 15, 20, 24, 25, 30, 40, 50, 60, 75, 100)
"""Numbers of bins to choose from: divisors of the fine ones, so that each bin is a run of them."""
DEFAULT_BINS = 20


def fine_bins(examples: Examples) -> dict[str, list[Any]]:
    """Per fine bin: examples, right ones among them, and the sum of their confidences.

    The edges of coarser bins are among these to the last bit: k / 20 and 60 k / 1200 are the same quotient, correctly
    rounded, and both are rounded to the dtype of the confidences.
    """
    index = bin_index(examples.confidence, FINE_BINS)
    return {
        "count": sum_by_bin(index, FINE_BINS).tolist(),
        "correct": sum_by_bin(index[examples.correct], FINE_BINS).tolist(),
        "confidence": sum_by_bin(index, FINE_BINS, examples.confidence).tolist(),
    }
