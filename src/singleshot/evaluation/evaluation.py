"""One pass over a file of predictions: its calibration, and the examples that intervals are made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from singleshot.metrics.calibration import Calibration, CalibrationResult
from singleshot.metrics.classwise import MIN_PER_CLASS, ClasswiseGroups
from singleshot.metrics.estimates import Estimator
from singleshot.metrics.examples import ExampleGathering, Examples
from singleshot.metrics.intervals import Interval, bootstrap
from singleshot.metrics.resampling import GROUPS, sort_examples, whole
from singleshot.metrics.significance import ConsistencyTest, consistency_test
from singleshot.predictions.predictions import Predictions

MOST_RESAMPLED = 1_000_000
"""Examples up to which intervals are made without being asked for: so far they take seconds and a few megabytes."""
MOST_EXACT = 100_000
"""Examples up to which each one is resampled; with more it is random groups of them, which takes seconds."""
FEWEST_RESAMPLED = 30
"""Examples from which on intervals are made: resamples of fewer say little about the next."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a classifier's predictions are worth."""

    result: CalibrationResult
    examples: Examples | None  # None where they were not kept
    intervals: dict[str, Interval] = field(default_factory=dict)
    consistency: ConsistencyTest | None = None  # whether perfect calibration could look like this
    from_examples: dict[str, float] = field(default_factory=dict)  # the metrics that the bins do not tell

    def metrics(self) -> dict[str, float]:
        """Every metric by name, those that only the examples can tell included where these were kept."""
        return {**self.from_examples, **self.result.metrics()}

    def remarks(self) -> list[str]:
        """Why something is left out that others have."""
        if self.examples is None:
            what = "intervals, AURC, and the debiased, equal-mass and smooth ECE"
            where = f"above {MOST_RESAMPLED:,} examples"
            return [f"Left out {where} unless asked for: {what}; --replicates 1000 gives them."]
        if len(self.examples) < FEWEST_RESAMPLED and self.consistency is not None:
            return [f"No intervals: they take {FEWEST_RESAMPLED} examples or more, here are {len(self.examples)}."]
        if len(self.examples) > MOST_RESAMPLED and not self.intervals:
            return [
                f"Left out above {MOST_RESAMPLED:,} examples unless asked for: intervals; --replicates 1000 gives them."
            ]
        if self.intervals and self.result.classwise_ece is not None and "classwise_ece" not in self.intervals:
            return [f"No interval for the classwise ECE: it takes {MIN_PER_CLASS} examples per class or more."]
        return []


def evaluate_predictions(
    predictions: Predictions,
    *,
    bins: int = 20,
    classwise: bool = False,
    replicates: int | None = None,
    keep_examples: bool = False,
    test_calibration: bool = True,
    also: Callable[..., None] | None = None,
) -> Evaluation:
    """Measure predictions in one pass that needs O(bins) memory, and 13 bytes per example where examples are kept.

    They are kept up to a million, and beyond where intervals or examples are asked for.

    Args:
        predictions: what `read_predictions` opened.
        bins: equal-width bins of the confidence.
        classwise: also compute the classwise ECE; its interval needs up to 100 MB more, and 200 examples per class.
        replicates: bootstrap resamples for the intervals, 0 for none; by default 1,000, and none for more than a
            million examples. There are none for fewer than 30 either.
        keep_examples: keep them in any case, for thresholds.
        test_calibration: also test that calibration is perfect, where there are intervals.
        also: is given every batch too, as the ``update`` of a metric is.
    """
    calibration = Calibration(bins=bins, classwise=classwise)
    by_default = not replicates and not keep_examples
    is_long = by_default and (predictions.source.count or 0) > MOST_RESAMPLED
    gathering = None if is_long else ExampleGathering()
    groups = ClasswiseGroups(bins) if classwise and replicates != 0 and not is_long else None
    count = 0
    for batch in predictions.batches():
        calibration.update(**batch)
        if also is not None:
            also(**batch)
        count += len(batch["labels"])
        if by_default and count > MOST_RESAMPLED:
            gathering = groups = None  # a text file does not tell its length before
        if gathering is not None:
            gathering.update(**batch)
        if groups is not None:
            groups.update(**batch)
    examples = gathering.finish() if gathering is not None else None
    if replicates is None:
        replicates = 1000 if count <= MOST_RESAMPLED else 0
    result = calibration.compute()
    if examples is None:
        return Evaluation(result, None)
    intervals = {}
    if replicates and count >= FEWEST_RESAMPLED:
        intervals = bootstrap(examples, replicates=replicates, bins=bins, groups=groups_for(count))
        points = {name: one.estimate for name, one in intervals.items()}
        if groups is not None and count >= MIN_PER_CLASS * predictions.classes:
            intervals["classwise_ece"] = groups.interval(replicates=replicates)
    else:
        points = point_estimates(examples, bins)
    is_tested = replicates and test_calibration
    consistency = consistency_test(examples, replicates=replicates, bins=bins) if is_tested else None
    return Evaluation(result, examples, intervals, consistency, points)


def groups_for(count: int) -> int | None:
    """How many groups of so many examples are resampled; None where each example is."""
    return GROUPS if count > MOST_EXACT else None


def point_estimates(examples: Examples, bins: int) -> dict[str, float]:
    """Every metric that bootstrap gives an interval for."""
    table = sort_examples(examples, bins)
    own = whole(table)
    return {name: float(value) for name, value in Estimator.of(table, own).metrics(own).items()}
