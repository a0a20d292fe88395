"""Evaluation of predictions in one pass, and the paired comparison of evaluations of the same examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from singleshot.common.checks import check_range, check_size
from singleshot.common.text import jsonable, listed, shown
from singleshot.evaluation.formatting import amount, number
from singleshot.evaluation.label_check import LabelCheck, LabelFault, LabelNames
from singleshot.metrics.calibration import Calibration, CalibrationResult
from singleshot.metrics.classwise import MIN_PER_CLASS, ClasswiseGroups
from singleshot.metrics.estimates import METRICS, Estimator, Resampled
from singleshot.metrics.examples import ExampleGathering, Examples, ScoredBatch
from singleshot.metrics.intervals import Interval, bootstrap
from singleshot.metrics.resampling import GROUPS
from singleshot.metrics.selective import Threshold, threshold_for_accuracy
from singleshot.metrics.significance import Comparison, compare_resampled
from singleshot.predictions import Predictions

MAX_RESAMPLED = 1_000_000
"""With more examples, intervals are computed only on request: up to here they take seconds and a few megabytes."""
MAX_EXACT = 100_000
"""With more examples, random groups of examples are resampled instead of single ones."""
MIN_RESAMPLED = 30
"""With fewer examples, there are no intervals: resamples of so few are not informative."""
DEFAULT_REPLICATES = 1000
COMPARED = ("accuracy", "ece", "nll", "brier")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Calibration of a classifier's predictions."""

    result: CalibrationResult
    examples: Examples | None  # None if they were not kept
    intervals: dict[str, Interval] = field(default_factory=dict)
    example_metrics: dict[str, float] = field(default_factory=dict)  # those that need the examples, not only the bins
    name: str = "predictions"
    about: str = ""  # number of examples and how they were predicted
    source: dict[str, Any] = field(default_factory=dict)  # where the predictions come from, for JSON
    top_class_only: bool = False  # whether only the confidence of the predicted class is known
    positive_name: str | None = None  # the positive class, if the predictions are only its scores
    positive: CalibrationResult | None = None  # its probability against its frequency (as ``accuracy``)
    impossible: int = 0  # labels with probability 0, which make the NLL infinite
    impossible_rows: tuple[int, ...] = ()  # the first of them, counted from 0
    label_fault: LabelFault | None = None  # what is wrong with the labels, if they do not fit the predictions

    def metrics(self) -> dict[str, float]:
        """Every known metric by name, including those that need the examples if they were kept."""
        found = {**self.example_metrics, **self.result.metrics()}
        return {name: value for name, value in found.items() if not math.isnan(value)}

    def threshold(self, accuracy: float) -> Threshold:
        """The lowest confidence threshold that guarantees an accuracy; needs the examples."""
        assert self.examples is not None
        return threshold_for_accuracy(self.examples, accuracy)

    def notes(self) -> list[str]:
        """Reasons for missing and infinite metrics, and the calibration of the positive class."""
        found = self._notes_on_intervals()
        if self.top_class_only:
            found.append(
                "Only the predicted class and its confidence are known: NLL, Brier score and classwise ECE need the "
                "probability of every class."
            )
        if self.impossible:
            rows = listed([str(row) for row in self.impossible_rows], 5)
            more = f" and {self.impossible - len(self.impossible_rows):,} more" if self.impossible > 5 else ""
            found.append(
                f"The NLL is infinite: {amount(self.impossible, 'example')} gave probability 0 to the right class, "
                f"{'row' if self.impossible == 1 else 'rows'} {rows}{more} (counted from 0)."
            )
        if self.positive is not None:
            found.append(
                f"Positive class {shown(self.positive_name)}: ECE {number(self.positive.ece, 0)}, mean probability "
                f"{number(self.positive.mean_confidence, 0)}, frequency {number(self.positive.accuracy, 0)}. The other "
                "metrics are those of the decision at 0.5."
            )
        return found

    def _notes_on_intervals(self) -> list[str]:
        on_request = f"omitted above {MAX_RESAMPLED:,} examples; use --replicates {DEFAULT_REPLICATES} to compute them."
        if self.examples is None:
            return [f"Intervals, AURC, and the debiased, equal-mass and smooth ECE are {on_request}"]
        count = len(self.examples)
        if count < MIN_RESAMPLED:
            return [f"No intervals: they need at least {MIN_RESAMPLED} examples, got {count}."]
        if count > MAX_RESAMPLED and not self.intervals:
            return [f"Intervals are {on_request}"]
        if self.intervals and self.result.classwise_ece is not None and "classwise_ece" not in self.intervals:
            return [f"No interval for the classwise ECE: it needs at least {MIN_PER_CLASS} examples per class."]
        return []

    def to_dict(self, accuracy: float | None = None) -> dict[str, Any]:
        """Every number as plain values for JSON, with the threshold for an accuracy if one is given."""
        found = {**self.source, **dict.fromkeys(METRICS), **self.metrics(), **result_dict(self.result)}
        if self.label_fault is not None:
            found["label_fault"] = self.label_fault._asdict()
        if self.top_class_only:
            found["top_class_only"] = True
        if self.impossible:
            found["impossible"] = {"count": self.impossible, "rows": self.impossible_rows}
        if self.positive is not None:
            found["positive_class"] = {"name": self.positive_name, **self.positive.to_dict()}
        if self.intervals:
            found["intervals"] = self.intervals
        if accuracy is not None:
            found["threshold"] = self.threshold(accuracy)
        return dict(jsonable(found))


def evaluate_batches(
    batches: Iterable[dict[str, Any]],
    *,
    checked: bool = False,
    bins: int = 20,
    classwise: bool = False,
    replicates: int | None = None,
    keep_examples: bool = False,
    on_batch: Callable[[ScoredBatch], None] | None = None,
    positive_name: str | None = None,
    label_names: LabelNames = lambda: None,
) -> Evaluation:
    """Evaluate batches, given as the arguments of `Calibration.update`, in one pass.

    Memory is O(bins), plus 25 bytes per example for up to a million examples, or for all of them if ``replicates`` or
    ``keep_examples`` is set. The interval of the classwise ECE needs up to 100 MB. ``checked`` scores have already been
    validated. ``replicates`` are bootstrap resamples for the intervals, by default 1,000, or none above a million
    examples. ``on_batch`` is called with every batch, validated and reduced. With ``positive_name``, the calibration
    of class 1 of two, which has this name, is also computed. ``label_names`` returns the names of the classes if the
    labels were given by name. Batches can also be arguments of `ScoredBatch.of_top_class`.
    """
    check_options(bins=bins, replicates=replicates)
    calibration = Calibration(bins=bins, classwise=classwise)
    gathering: ExampleGathering | None = ExampleGathering()
    groups = ClasswiseGroups(bins) if classwise and replicates != 0 else None
    positive = None if positive_name is None else Calibration(bins=bins)
    labels_fit = LabelCheck()
    impossible_rows: list[int] = []
    impossible = count = classes = 0
    for given in batches:
        batch = scored_batch(given, checked=checked)
        calibration.add(batch)
        labels_fit.add(batch)
        if positive is not None:
            positive.add(batch.of_class(1))
        rows = batch.nll.isinf().nonzero().squeeze(1) + count
        impossible += len(rows)
        impossible_rows += rows[: 5 - len(impossible_rows)].tolist()
        if on_batch is not None:
            on_batch(batch)
        count += len(batch)
        classes = batch.scores.shape[1]
        if count > MAX_RESAMPLED and not replicates and not keep_examples:
            gathering = groups = None
        if gathering is not None:
            gathering.add(batch)
        if groups is not None:
            groups.add(batch)
    result = calibration.compute()
    known: dict[str, Any] = {
        "positive_name": positive_name,
        "top_class_only": math.isnan(result.nll),
        "positive": None if positive is None else positive.compute(),
        "label_fault": labels_fit.fault(positive_name, label_names),
        "impossible": impossible,
        "impossible_rows": tuple(impossible_rows),
    }
    if gathering is None:
        return Evaluation(result, None, **known)
    if replicates is None:
        replicates = DEFAULT_REPLICATES if count <= MAX_RESAMPLED else 0
    examples = gathering.finish()
    intervals = {}
    if replicates and count >= MIN_RESAMPLED:
        intervals = bootstrap(examples, replicates=replicates, bins=bins, groups=resampled_groups(count))
        estimates = {name: one.estimate for name, one in intervals.items()}
        if groups is not None and count >= MIN_PER_CLASS * classes:
            intervals["classwise_ece"] = groups.interval(replicates)
    else:
        estimates = Estimator(examples, bins).estimates()
    intervals = {name: one for name, one in intervals.items() if not math.isnan(one.estimate)}
    return Evaluation(result, examples, intervals, estimates, **known)


def scored_batch(given: dict[str, Any], *, checked: bool) -> ScoredBatch:
    """Return the batch with these arguments of `ScoredBatch.of` or `ScoredBatch.of_top_class`."""
    return ScoredBatch.of_top_class(**given) if "confidence" in given else ScoredBatch.of(**given, checked=checked)


def evaluate_file(predictions: Predictions, **options: Any) -> Evaluation:
    """Evaluate a file that `read_predictions` opened, with the options of `evaluate_batches`."""
    if predictions.kind == "confidence":
        options = {**options, "classwise": False}
    positive = predictions.positive
    known: dict[str, Any] = {"positive_name": positive, "label_names": predictions.label_names}
    evaluation = evaluate_batches(predictions.batches(), checked=True, **known, **options)
    path, kind, classes = predictions.path, predictions.kind, predictions.known_classes
    size = amount(evaluation.result.count, "example")
    if classes:
        size += f", {amount(classes, 'class', 'classes')}"
    what = {"confidence": "confidence of the predicted class"}.get(kind, kind)
    return replace(
        evaluation,
        name=str(path),
        about=f"{size}, {what}" if positive is None else f"{size}, {what} of {shown(positive)}",
        source={"file": str(path), "kind": kind, "classes": classes or None},
    )


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
    base, one = (resample_compared(evaluation, replicates, bins) for evaluation in (baseline, other))
    finite = [name for name in COMPARED if math.isfinite(one.plain[name]) and math.isfinite(base.plain[name])]
    return BaselineComparison(other.name, baseline.name, [compare_resampled(one, base, name) for name in finite])


def resample_compared(evaluation: Evaluation, replicates: int | None, bins: int) -> Resampled:
    """Resample the compared metrics; equal numbers of examples are resampled alike, so differences are paired."""
    assert evaluation.examples is not None
    return _resample(evaluation.examples, replicates or DEFAULT_REPLICATES, bins)


@lru_cache(maxsize=2)  # the baseline, which is compared with several others, and one of them
def _resample(examples: Examples, replicates: int, bins: int) -> Resampled:
    groups = resampled_groups(len(examples))
    return Estimator(examples, bins).resample(replicates, 0, COMPARED, groups=groups, by_position=True)


def check_options(*, bins: int = 20, replicates: int | None = None, accuracy: float | None = None) -> None:
    """Check options before the evaluation starts."""
    check_size("bins", bins, least=1)
    if replicates:
        check_size("replicates", replicates, least=2)
    if accuracy is not None:
        try:
            check_range("accuracy", accuracy, "(0, 1)")
        except ValueError as error:
            hint = f"; for {accuracy:g} %, set {accuracy / 100:g}" if 1 < accuracy < 100 else ""
            raise ValueError(f"{error}{hint}") from None


def result_dict(result: CalibrationResult) -> dict[str, Any]:
    """Metrics and bins for JSON, which has no infinity: an infinite NLL is null, marked by ``nll_is_infinite``."""
    return {**result.to_dict(), **({"nll_is_infinite": True} if math.isinf(result.nll) else {})}


def resampled_groups(count: int) -> int | None:
    """Number of groups to resample for so many examples; None if single examples are resampled."""
    return GROUPS if count > MAX_EXACT else None
