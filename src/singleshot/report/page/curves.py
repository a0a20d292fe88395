"""Counts and curves from which the page draws diagrams and finds thresholds in the browser."""

from __future__ import annotations

from typing import Any

import numpy as np

from singleshot.metrics.binning import bin_index, sum_by_bin
from singleshot.metrics.examples import Examples
from singleshot.metrics.selective import STARTS, THRESHOLDS, accepted_at, risk_coverage

FINE_BINS = 1200
BIN_CHOICES = (5, 6, 8, 10, 12, 15, 20, 24, 25, 30, 40, 50, 60, 75, 100)
"""Numbers of bins to choose from. They divide the number of fine bins, so that each bin is a union of fine bins."""
DEFAULT_BINS = 20
MAX_POINTS = 400
EXPLORED = (
    *(k / 1000 for k in range(1000)),
    *(k / 10_000 for k in range(9991, 10_000)),
    *(k / 100_000 for k in range(99_991, 100_001)),
)
"""Thresholds to choose from, denser near 1 where confidences are; they include those of the guarantees."""
CERTAINTY = 0.95
GUARANTEE = {
    "certainty": CERTAINTY,
    "thresholds": list(THRESHOLDS),
    "starts": [THRESHOLDS.index(start) for start in STARTS],
}
"""The search of `singleshot.metrics.threshold_for_accuracy`, which the page repeats in JavaScript."""


def fine_bins(examples: Examples) -> dict[str, list[Any]]:
    """Count examples and correct predictions and sum the confidence per fine bin.

    The edges of coarser bins are edges of fine bins to the last bit: k / 20 and 60 k / 1200 are the same quotient,
    correctly rounded, and both are rounded to the dtype of the confidences.
    """
    index = bin_index(examples.confidence, FINE_BINS)
    return {
        "count": sum_by_bin(index, FINE_BINS).tolist(),
        "correct": sum_by_bin(index[examples.correct], FINE_BINS).tolist(),
        "confidence": sum_by_bin(index, FINE_BINS, examples.confidence).tolist(),
    }


def risk_coverage_points(examples: Examples) -> dict[str, Any]:
    """Return the risk–coverage curve at evenly spaced coverages, with its first and last point, and the whole area."""
    curve = risk_coverage(examples)
    shares = np.linspace(curve.coverage[0], 1, MAX_POINTS)
    at = np.unique(np.clip(np.searchsorted(curve.coverage, shares), 0, len(curve.coverage) - 1))
    return {"coverage": curve.coverage[at].tolist(), "risk": curve.risk[at].tolist(), "aurc": curve.aurc}


def threshold_counts(examples: Examples) -> dict[str, list[int]]:
    """Count the examples that each explored threshold accepts, and the correct ones among them."""
    accepted, correct = accepted_at(examples, EXPLORED)
    return {"accepted": accepted.tolist(), "correct": correct.tolist()}
