"""What a threshold gives: the risk–coverage curve, the paper's coverage curve, and thresholds with a guarantee."""

from __future__ import annotations

from typing import Any

import numpy as np

from singleshot.metrics.examples import Examples
from singleshot.metrics.result import CalibrationResult
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
