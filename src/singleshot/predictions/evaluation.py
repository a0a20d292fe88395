"""One pass over a file of predictions: its calibration, and the examples that intervals are made from."""

from __future__ import annotations

from dataclasses import dataclass, field

from singleshot.metrics.bootstrap import Interval, bootstrap
from singleshot.metrics.calibration import Calibration
from singleshot.metrics.consistency import ConsistencyTest, consistency_test
from singleshot.metrics.examples import ExampleGathering, Examples
from singleshot.metrics.result import CalibrationResult
from singleshot.predictions.predictions import Predictions

MOST_RESAMPLED = 1_000_000
"""Examples up to which intervals are made without being asked for: so far they take seconds and a few megabytes."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a classifier's predictions are worth."""

    result: CalibrationResult
    examples: Examples | None  # None where they were not kept
    intervals: dict[str, Interval] = field(default_factory=dict)
    consistency: ConsistencyTest | None = None  # whether perfect calibration could look like this

    def metrics(self) -> dict[str, float]:
        """Every metric by name, those that only the examples can tell included where there are intervals."""
        return {**{name: one.estimate for name, one in self.intervals.items()}, **self.result.metrics()}


def evaluate_predictions(
    predictions: Predictions,
    *,
    bins: int = 20,
    classwise: bool = False,
    replicates: int | None = None,
    keep_examples: bool = False,
) -> Evaluation:
    """Measure predictions in one pass that needs O(bins) memory, and 13 bytes per example where intervals are wanted.

    Args:
        predictions: what `read_predictions` opened.
        bins: equal-width bins of the confidence.
        classwise: also compute the classwise ECE.
        replicates: bootstrap resamples for the intervals, 0 for none; by default 1,000, and none for more than a
            million examples.
        keep_examples: keep them in any case, for comparisons and thresholds.
    """
    calibration = Calibration(bins=bins, classwise=classwise)
    by_default = replicates is None and not keep_examples
    is_long = by_default and (predictions.source.count or 0) > MOST_RESAMPLED
    gathering = ExampleGathering() if keep_examples or (replicates != 0 and not is_long) else None
    count = 0
    for batch in predictions.batches():
        calibration.update(**batch)
        count += len(batch["labels"])
        if by_default and count > MOST_RESAMPLED:
            gathering = None  # a text file does not tell its length before
        if gathering is not None:
            gathering.update(**batch)
    examples = gathering.finish() if gathering is not None else None
    if replicates is None:
        replicates = 1000 if count <= MOST_RESAMPLED else 0
    result = calibration.compute()
    if not replicates or examples is None:
        return Evaluation(result, examples)
    return Evaluation(
        result,
        examples,
        intervals=bootstrap(examples, replicates=replicates, bins=bins),
        consistency=consistency_test(examples, replicates=replicates, bins=bins),
    )
