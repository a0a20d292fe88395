"""The data of the page as plain values for JSON, with the counts and curves from which the browser draws diagrams."""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

import numpy as np
from torch import Tensor

from singleshot import __version__
from singleshot.common.text import jsonable, shown
from singleshot.evaluation.evaluation import COMPARED, BaselineComparison, Evaluation, compare, resample_compared
from singleshot.evaluation.formatting import LABELS, difference_label
from singleshot.metrics.binning import bin_index, sum_by_bin
from singleshot.metrics.estimates import Resampled
from singleshot.metrics.examples import Examples
from singleshot.metrics.selective import STARTS, THRESHOLDS, accepted_at, risk_coverage, threshold_bounds
from singleshot.metrics.significance import compare_resampled
from singleshot.reporting.page.model_report import DEFAULT_BINS, ModelReport
from singleshot.reporting.page.outcomes import CONFUSION_THRESHOLD, classes_by_gap, confusions, outlier_class

HELP = {
    "accuracy": "Share of examples whose predicted class is correct.",
    "ece": "Expected calibration error: mean distance between confidence and accuracy over the bins of the score.",
    "nll": "Negative log-likelihood of the labels: measures both accuracy and calibration.",
    "brier": "Squared distance between the probabilities and the label: measures both accuracy and calibration.",
    "aurc": "Area under the risk–coverage curve: the mean error rate over all thresholds.",
    "mean_confidence": "Mean score of the predicted class; equal to the accuracy if the classifier is calibrated.",
    "mce": "Maximum calibration error: the gap of the worst bin, which may contain few examples.",
    "debiased_ece": "The ECE without its expected bias from a finite sample.",
    "adaptive_ece": "The ECE with bins of equal numbers of examples.",
    "smooth_ece": "The ECE with a smooth kernel in place of bins.",
    "rmsce": "Root-mean-square calibration error: like the ECE, with more weight on large gaps.",
    "overconfidence": "The part of the ECE from bins where confidence exceeds accuracy.",
    "underconfidence": "The part of the ECE from bins where accuracy exceeds confidence.",
    "excess_aurc": "The AURC above that of a perfect ranking, which places every correct prediction first.",
}
"""Metrics in the order of the table's columns."""
MAIN = ("accuracy", "ece", "nll", "brier", "aurc")
"""Columns that are shown at first."""
FINE_BINS = 1200
MAX_BINS, MAX_FINE_BINS = FINE_BINS, 12_000
BIN_CHOICES = (5, 6, 8, 10, 12, 15, 20, 24, 25, 30, 40, 50, 60, 75, 100)
"""Numbers of bins to choose from that divide the number of fine bins, so that each bin is a union of fine bins."""
MAX_POINTS = 400
EXPLORED = (
    *(k / 1000 for k in range(1000)),
    *(k / 10_000 for k in range(9991, 10_000)),
    *(k / 100_000 for k in range(99_991, 100_001)),
)
"""Thresholds to choose from, denser near 1 where confidences are; they include those of the guarantees."""
GUARANTEE = {
    "certainty": 0.95,
    "thresholds": list(THRESHOLDS),
    "starts": [THRESHOLDS.index(start) for start in STARTS],
}
"""The search of `singleshot.metrics.threshold_for_accuracy`, which the page repeats in JavaScript."""


def page_data(
    reports: Iterable[ModelReport], *, title: str, replicates: int | None = None, command: str | None = None
) -> dict[str, Any]:
    """Return the data of the page. Of reports from a generator, only the first stays in memory, as the baseline."""
    models: list[dict[str, Any]] = []
    comparisons = []
    ranked: dict[str, Resampled] = {}
    baseline = None
    bins = DEFAULT_BINS
    for report in reports:
        evaluation = report.evaluation
        bins = len(evaluation.result.bins.count)
        model = model_data(report)
        model["name"] = _numbered(model["name"], [other["name"] for other in models])  # truncated names may be equal
        baseline = baseline or report
        if models and replicates != 0:
            comparison = compare(evaluation, baseline.evaluation, replicates=replicates, bins=bins)
            comparisons.append(_comparison_data(comparison, model["name"], models[0]["name"]))
            if comparison.differences is not None:
                first = models[0]["name"]
                ranked[first] = ranked.get(first) or resample_compared(baseline.evaluation, replicates, bins)
                ranked[model["name"]] = resample_compared(evaluation, replicates, bins)
        models.append(model)
    page = {
        "title": shown(title, max_length=200),
        "singleshot": __version__,
        "command": None if command is None else shown(command, max_length=10_000),
        "made": datetime.now(timezone.utc).date().isoformat(),
        "bin_choices": bin_choices(bins),
        "default_bins": bins,
        "thresholds": EXPLORED,
        "guarantee": GUARANTEE,
        "confusion_threshold": CONFUSION_THRESHOLD,
        "metrics": [_metric_column(name) for name in HELP],
        "models": models,
        "best": {metric: clear_winner(ranked, metric) for metric in COMPARED},
        "comparisons": comparisons,
        "compared": [{**_metric_column(name), "title": difference_label(name)} for name in COMPARED],
    }
    return dict(jsonable(page))


def model_data(report: ModelReport) -> dict[str, Any]:
    """Return the data of one model."""
    evaluation, outcomes = report.evaluation, report.outcomes
    examples = outcomes.examples
    found = report.verdict
    return {
        "name": shown(report.name, keep_end=True),
        "about": shown(report.about, max_length=500),
        "count": evaluation.result.count,
        "classes": outcomes.classes,
        "verdict": str(found),
        "badge": found.badge,
        "level": found.level,
        "sentences": found.sentences,
        "p_value": found.p_value,
        "exception": outlier_class(outcomes) if outcomes.classes else None,
        "next_step": report.next_step,
        "metrics": {name: _estimate(name, evaluation) for name in HELP},
        "fine": fine_bins(examples, fine_number(len(evaluation.result.bins.count))),
        "risk_coverage": risk_coverage_points(examples),
        "at_threshold": dict(zip(("accepted", "correct"), accepted_at(examples, EXPLORED), strict=True)),
        "guaranteed_accuracies": threshold_bounds(examples)[2],
        "classes_predicted": len(np.unique(outcomes.predicted)),
        "classes_by_gap": classes_by_gap(outcomes) if outcomes.classes else None,
        "confusions": confusions(outcomes) if outcomes.classes else None,
        "inspection": report.inspection,
        "passes": report.passes,
        "training": report.training,
        "recipe": _shown_values(report.recipe),
        "environment": _shown_values(report.environment),
        "file": report.file,
        "command": shown(report.command, max_length=2000),
    }


def fine_number(bins: int) -> int:
    """Return a number of fine bins that these bins divide, and the other choices if possible.

    >>> fine_number(20), fine_number(7), fine_number(997)
    (1200, 8400, 997)
    """
    common = math.lcm(FINE_BINS, bins)
    return common if common <= MAX_FINE_BINS else bins


def bin_choices(bins: int) -> list[int]:
    """Return the numbers of bins to choose from, including these.

    >>> bin_choices(997), 7 in bin_choices(7), len(bin_choices(20)) == len(BIN_CHOICES)
    ([997], True, True)
    """
    return sorted({bins, *(choice for choice in BIN_CHOICES if fine_number(bins) % choice == 0)})


def fine_bins(examples: Examples, number: int = FINE_BINS) -> dict[str, Tensor]:
    """Count examples and correct predictions and sum the confidence per fine bin.

    The edges of coarser bins are edges of fine bins to the last bit: k / 20 and 60 k / 1200 are the same quotient,
    correctly rounded, and both are rounded to the dtype of the confidences.
    """
    index = bin_index(examples.confidence, number)
    return {
        "count": sum_by_bin(index, number),
        "correct": sum_by_bin(index[examples.correct], number),
        "confidence": sum_by_bin(index, number, examples.confidence),
    }


def risk_coverage_points(examples: Examples) -> dict[str, Any]:
    """Return the risk–coverage curve at evenly spaced coverages, with its first and last point, and the whole area."""
    curve = risk_coverage(examples)
    shares = np.linspace(curve.coverage[0], 1, MAX_POINTS)
    at = np.unique(np.clip(np.searchsorted(curve.coverage, shares), 0, len(curve.coverage) - 1))
    return {"coverage": curve.coverage[at], "risk": curve.risk[at], "aurc": curve.aurc}


def clear_winner(ranked: Mapping[str, Resampled], metric: str) -> str | None:
    """Return the model that is better than each other beyond chance, or None.

    The best is chosen after the fact, so the intervals of its differences are corrected for the number of others. An
    infinite loss is worse than any other.
    """
    sign = -1 if metric == "accuracy" else 1
    known = {name: one for name, one in ranked.items() if not math.isnan(one.plain[metric])}
    finite = {name: one for name, one in known.items() if math.isfinite(one.plain[metric])}
    if len(known) < 2 or not finite:
        return None
    best = min(finite, key=lambda name: sign * finite[name].centres[metric])
    level = 1 - 0.05 / (len(known) - 1)
    differences = (
        compare_resampled(finite[best], other, metric, level=level) for name, other in finite.items() if name != best
    )
    return best if all(sign * (one.high if sign > 0 else one.low) < 0 for one in differences) else None


def _metric_column(name: str) -> dict[str, Any]:
    better = None if name == "mean_confidence" else "higher" if name == "accuracy" else "lower"
    return {"name": name, "title": LABELS[name], "better": better, "help": HELP[name], "main": name in MAIN}


def _estimate(name: str, evaluation: Evaluation) -> dict[str, float | bool | None]:
    interval = evaluation.intervals.get(name)
    estimate = evaluation.metrics().get(name, math.nan)  # unknown if only the predicted class is known
    return {
        "estimate": estimate,
        "infinite": math.isinf(estimate),  # JSON has no infinity
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
    }


def _comparison_data(comparison: BaselineComparison, name: str, baseline: str) -> dict[str, Any]:
    return {
        "of": name,
        "against": baseline,
        "why": f"{name} and {baseline} {comparison.reason}." if comparison.differences is None else None,
        "differences": comparison.differences or [],
    }


def _shown_values(value: Any) -> Any:
    """Make every text in nested dicts and lists safe to display; other objects become text."""
    if isinstance(value, dict):
        return {shown(name): _shown_values(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_shown_values(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | float) else shown(value, max_length=1000)


def _numbered(name: str, taken: Container[str]) -> str:
    """Append a number to a name that is taken.

    >>> _numbered("a", ["a", "a (2)"])
    'a (3)'
    """
    candidates = (name if number == 1 else f"{name} ({number})" for number in itertools.count(1))
    return next(candidate for candidate in candidates if candidate not in taken)
