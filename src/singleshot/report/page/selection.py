"""What a threshold gives: the risk–coverage curve, the paper's coverage curve, and thresholds with a guarantee."""

from __future__ import annotations

from typing import Any

import numpy as np

from singleshot.metrics.examples import Examples
from singleshot.metrics.result import CalibrationResult
from singleshot.metrics.selective import risk_coverage, thresholds_for_accuracies

MOST_POINTS = 400
ACCURACIES = (*(k / 100 for k in range(50, 100)), 0.995, 0.999)


def risk_coverage_points(examples: Examples) -> dict[str, Any]:
    """The risk–coverage curve at no more points than an eye can tell, evenly spread over the coverage; its whole area.

    The first and the last point are always among them.
    """
    curve = risk_coverage(examples)
    shares = np.linspace(curve.coverage[0], 1, MOST_POINTS)
    at = np.unique(np.clip(np.searchsorted(curve.coverage, shares), 0, len(curve.coverage) - 1))
    return {
        "threshold": curve.threshold[at].tolist(),
        "coverage": curve.coverage[at].tolist(),
        "risk": curve.risk[at].tolist(),
        "aurc": curve.aurc,
    }


def coverage_points(result: CalibrationResult) -> dict[str, Any]:
    """At each bin's lower edge the share of examples above it whose bin is right more often than it says (Fig. 5)."""
    return {"threshold": result.bins.lower.tolist(), "coverage": result.bins.coverage().tolist()}


def guarantees(examples: Examples) -> list[dict[str, Any]]:
    """For each accuracy one may ask for: the lowest threshold that is sure to reach it, or why there is none."""
    return [
        {
            "accuracy": one.wanted,
            "threshold": one.threshold,
            "coverage": one.coverage if one.threshold is not None else None,
            "accepted": one.accepted,
            "correct": round(one.accuracy * one.accepted) if one.accepted else 0,
            "message": one.message,
        }
        for one in thresholds_for_accuracies(examples, ACCURACIES)
    ]
