"""Which of several classifiers is better on the same examples: what is compared, where it can be, and how."""

from __future__ import annotations

import math

from singleshot.metrics.comparison import Comparison, Resampled, compare_resampled
from singleshot.metrics.examples import Examples
from singleshot.predictions.evaluation import FEWEST_RESAMPLED

COMPARED = ("accuracy", "ece", "nll", "brier")
"""Metrics by which two sources are compared."""


def why_not_compared(a: Examples, b: Examples) -> str | None:
    """What stands against it, to follow the names of the two; None where nothing does."""
    if len(a) != len(b) or a.labels_digest != b.labels_digest:
        return "have different labels: each is an estimate of its own"
    if len(a) < FEWEST_RESAMPLED:
        return f"are not compared: that takes {FEWEST_RESAMPLED} examples or more, here are {len(a)}"
    return None


def differences(a: Resampled, b: Resampled) -> list[Comparison]:
    """A minus B in every metric that is finite for both."""
    finite = [name for name in a.plain if math.isfinite(a.plain[name]) and math.isfinite(b.plain[name])]
    return [compare_resampled(a, b, name) for name in finite]
