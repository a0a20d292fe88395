"""Paired comparison of classifiers that were evaluated on the same examples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
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


def compare(other: Evaluation, baseline: Evaluation, *, replicates: int | None, bins: int) -> BaselineComparison:
    """The other evaluation minus the baseline, in every metric that is finite for both.

    ``replicates`` is the number of bootstrap resamples, by default 1,000, or no comparison above a million examples.
    """
    first, second = baseline.examples, other.examples
    reason = ""
    if first is None or second is None or (replicates is None and max(len(first), len(second)) > MAX_RESAMPLED):
        reason = f"more than {MAX_RESAMPLED:,} examples; use --replicates {DEFAULT_REPLICATES} to compare them"
    elif not first.has_labels_of(second):
        reason = "their labels differ, so they are not predictions for the same examples"
    elif len(first) < MIN_RESAMPLED:
        reason = f"a comparison needs at least {MIN_RESAMPLED} examples, got {len(first)}"
    if first is None or second is None or reason:
        return BaselineComparison(other.name, baseline.name, None, f"are not compared: {reason}")
    base, one = (_resample(examples, replicates or DEFAULT_REPLICATES, bins) for examples in (first, second))
    finite = [name for name in COMPARED if math.isfinite(one.plain[name]) and math.isfinite(base.plain[name])]
    return BaselineComparison(other.name, baseline.name, [compare_resampled(one, base, name) for name in finite])


@lru_cache(maxsize=2)  # the baseline, which is compared with several others, and one of them
def _resample(examples: Examples, replicates: int, bins: int) -> Resampled:
    groups = resampled_groups(len(examples))
    return Estimator(examples, bins).resample(replicates, 0, COMPARED, groups=groups, by_position=True)
