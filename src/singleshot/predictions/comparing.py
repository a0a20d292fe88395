"""Which of several classifiers is better on the same examples: what is compared, where it can be, and how."""

from __future__ import annotations

import math

from singleshot.metrics.comparison import Comparison, Resampled, compare_resampled
from singleshot.metrics.examples import Examples
from singleshot.predictions.evaluation import FEWEST_RESAMPLED

COMPARED = ("accuracy", "ece", "nll", "brier")
"""Metrics by which two sources are compared."""


def same_examples(a: Examples, b: Examples) -> bool:
    """Whether both are predictions of the same examples in the same order, as far as their labels tell."""
    return len(a) == len(b) and a.labels_digest == b.labels_digest


def why_not_compared(a: Examples, b: Examples) -> str | None:
    """What stands against it, to follow the names of the two; None where nothing does."""
    if not same_examples(a, b):
        return "have different labels, so they are not of the same examples and cannot be compared one by one"
    if len(a) < FEWEST_RESAMPLED:
        return f"are not compared: that takes {FEWEST_RESAMPLED} examples or more, here are {len(a)}"
    return None


def differences(a: Resampled, b: Resampled) -> list[Comparison]:
    """A minus B in every metric that is finite for both."""
    finite = [name for name in a.plain if math.isfinite(a.plain[name]) and math.isfinite(b.plain[name])]
    return [compare_resampled(a, b, name) for name in finite]
