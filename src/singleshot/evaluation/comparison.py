"""Paired comparison of classifiers that were evaluated on the same examples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from singleshot.common.text import jsonable
from singleshot.evaluation.evaluation import (
    DEFAULT_REPLICATES,
    MAX_RESAMPLED,
    MIN_RESAMPLED,
    Evaluation,
    resampled_groups,
)
from singleshot.metrics.estimates import Estimator, Resampled
from singleshot.metrics.examples import Examples
from singleshot.metrics.significance import Comparison, compare_resampled

COMPARED = ("accuracy", "ece", "nll", "brier")


@dataclass(frozen=True)
class BaselineComparison:
    """Differences of an evaluation from the baseline; None if they cannot be compared, with a reason."""

    of: str
    against: str
    differences: list[Comparison] | None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Every number as plain values for JSON."""
        found: dict[str, Any] = {"of": self.of, "against": self.against, "differences": None}
        if self.differences is None:
            return {**found, "why": self.reason}
        return {**found, "differences": {one.metric: jsonable(one) for one in self.differences}}


class Baseline:
    """Compares evaluations with a first one, which is resampled only once.

    Args:
        evaluation: the baseline.
        replicates: bootstrap resamples. Default: 1,000, or no comparison above a million examples.
        bins: equal-width bins of the ECE.
    """

    def __init__(self, evaluation: Evaluation, *, replicates: int | None, bins: int) -> None:
        self.evaluation = evaluation
        self._max_examples = MAX_RESAMPLED if replicates is None else math.inf
        self._replicates = DEFAULT_REPLICATES if replicates is None else replicates
        self._bins = bins
        self._resampled: Resampled | None = None

    def compare(self, other: Evaluation) -> BaselineComparison:
        """The other evaluation minus the baseline, in every metric that is finite for both."""
        names = other.name, self.evaluation.name
        first, second = self.evaluation.examples, other.examples
        reason = ""
        if first is None or second is None or max(len(first), len(second)) > self._max_examples:
            reason = f"more than {MAX_RESAMPLED:,} examples; use --replicates {DEFAULT_REPLICATES} to compare them"
        elif not self.has_same_examples(other):
            reason = "their labels differ, so they are not predictions for the same examples"
        elif len(first) < MIN_RESAMPLED:
            reason = f"a comparison needs at least {MIN_RESAMPLED} examples, got {len(first)}"
        if first is None or second is None or reason:
            return BaselineComparison(*names, None, f"are not compared: {reason}")
        if self._resampled is None:
            self._resampled = self._resample(first)
        one, base = self._resample(second), self._resampled
        finite = [name for name in one.plain if math.isfinite(one.plain[name]) and math.isfinite(base.plain[name])]
        return BaselineComparison(*names, [compare_resampled(one, base, name) for name in finite])

    def has_same_examples(self, other: Evaluation) -> bool:
        """Whether both are predictions for the same examples in the same order, according to their labels."""
        first, second = self.evaluation.examples, other.examples
        if first is None or second is None:
            return False
        return len(first) == len(second) and first.labels_digest == second.labels_digest

    def _resample(self, examples: Examples) -> Resampled:
        groups = resampled_groups(len(examples))
        return Estimator(examples, self._bins).resample(self._replicates, 0, COMPARED, groups=groups, by_position=True)
