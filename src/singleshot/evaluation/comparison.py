"""Which of several classifiers is better on the same examples: what is compared, where it can be, and how."""

from __future__ import annotations

import math

from singleshot.evaluation.evaluation import FEWEST_RESAMPLED, MOST_RESAMPLED, groups_for
from singleshot.metrics.examples import Examples
from singleshot.metrics.significance import Comparison, Resampled, compare_resampled, resampled_metrics

COMPARED = ("accuracy", "ece", "nll", "brier")
"""Metrics by which two sources are compared."""


class AgainstFirst:
    """Compares classifiers one by one with the first, whose resamples are made once.

    Args:
        first: its examples, or None where they were not kept.
        replicates: bootstrap resamples; None takes 1000, where that takes seconds and not minutes.
        bins: equal-width bins of the ECE.
    """

    def __init__(self, first: Examples | None, *, replicates: int | None, bins: int) -> None:
        self.first = first
        self._most = MOST_RESAMPLED if replicates is None else math.inf
        self._replicates = 1000 if replicates is None else replicates
        self._bins = bins
        self._first_resampled: Resampled | None = None

    def compare(self, other: Examples | None) -> list[Comparison] | str:
        """The other minus the first in every metric that is finite for both; or why not, to follow both names."""
        first = self.first
        if first is None or other is None or max(len(first), len(other)) > self._most:
            return f"are not compared: one has more than {MOST_RESAMPLED:,} examples; --replicates 1000 compares them"
        if not same_examples(other, first):
            return "have different labels, so they are not of the same examples and cannot be compared one by one"
        if len(first) < FEWEST_RESAMPLED:
            return f"are not compared: that takes {FEWEST_RESAMPLED} examples or more, here are {len(first)}"
        if self._first_resampled is None:
            self._first_resampled = self._resampled(first)
        return _differences(self._resampled(other), self._first_resampled)

    def _resampled(self, examples: Examples) -> Resampled:
        groups = groups_for(len(examples))
        return resampled_metrics(examples, COMPARED, replicates=self._replicates, bins=self._bins, groups=groups)


def same_examples(a: Examples, b: Examples) -> bool:
    """Whether both are predictions of the same examples in the same order, as far as their labels tell."""
    return len(a) == len(b) and a.labels_digest == b.labels_digest


def _differences(a: Resampled, b: Resampled) -> list[Comparison]:
    finite = [name for name in a.plain if math.isfinite(a.plain[name]) and math.isfinite(b.plain[name])]
    return [compare_resampled(a, b, name) for name in finite]
