"""The data of the page as plain values for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

import numpy as np

from singleshot import __version__
from singleshot.common.text import jsonable
from singleshot.evaluation.comparison import COMPARED, Baseline, BaselineComparison
from singleshot.evaluation.evaluation import Evaluation
from singleshot.evaluation.formatting import LABELS, difference_label
from singleshot.evaluation.verdict import verdict
from singleshot.metrics.estimates import HIGHER_IS_BETTER
from singleshot.metrics.selective import threshold_bounds
from singleshot.report.page import curves
from singleshot.report.page.classes import CONFUSION_THRESHOLD, classes_by_gap, confusions, outlier_class
from singleshot.report.page.labels import numbered, shown, shown_values
from singleshot.report.page.model_report import ModelReport

HELP = {
    "accuracy": "Share of examples whose predicted class is correct.",
    "mean_confidence": "Mean score of the predicted class; equal to the accuracy if the classifier is calibrated.",
    "ece": "Expected calibration error: mean distance between confidence and accuracy over 20 bins of the score.",
    "mce": "Maximum calibration error: the gap of the worst bin, which may contain few examples.",
    "nll": "Negative log-likelihood of the labels: measures both accuracy and calibration.",
    "brier": "Squared distance between the probabilities and the label: measures both accuracy and calibration.",
    "aurc": "Area under the risk–coverage curve: the mean error rate over all thresholds.",
    "debiased_ece": "The ECE without its expected bias from a finite sample.",
    "adaptive_ece": "The ECE with bins of equal numbers of examples.",
    "smooth_ece": "The ECE with a smooth kernel in place of bins.",
    "rmsce": "Root-mean-square calibration error: like the ECE, with more weight on large gaps.",
    "overconfidence": "The part of the ECE from bins where confidence exceeds accuracy.",
    "underconfidence": "The part of the ECE from bins where accuracy exceeds confidence.",
    "excess_aurc": "The AURC above that of a perfect ranking, which places every correct prediction first.",
}
"""Metrics in the order of the table's columns."""


def page_data(
    reports: Iterable[ModelReport], *, title: str, replicates: int | None = None, command: str | None = None
) -> dict[str, Any]:
    """Return the data of the page. Of reports from a generator, only the first stays in memory, as the baseline."""
    models: list[dict[str, Any]] = []
    comparisons = []
    baseline = None
    for report in reports:
        model = model_data(report)
        model["name"] = numbered(model["name"], [other["name"] for other in models])  # truncated names may be equal
        if baseline is None:
            baseline = Baseline(report.evaluation, replicates=replicates, bins=curves.DEFAULT_BINS)
        elif replicates != 0:
            comparison = baseline.compare(report.evaluation)
            comparisons.append(_comparison_data(comparison, model["name"], models[0]["name"]))
        model["same_examples"] = baseline.has_same_examples(report.evaluation)
        models.append(model)
    page = {
        "title": shown(title, max_length=200),
        "singleshot": __version__,
        "command": None if command is None else shown(command, max_length=10_000),
        "made": datetime.now(timezone.utc).date().isoformat(),
        "bin_choices": curves.BIN_CHOICES,
        "default_bins": curves.DEFAULT_BINS,
        "thresholds": curves.EXPLORED,
        "guarantee": curves.GUARANTEE,
        "confusion_threshold": CONFUSION_THRESHOLD,
        "metrics": [_metric_column(name) for name in HELP],
        "models": models,
        "comparisons": comparisons,
        "compared": [{**_metric_column(name), "title": difference_label(name)} for name in COMPARED],
    }
    return dict(jsonable(page))


def model_data(report: ModelReport) -> dict[str, Any]:
    """Return the data of one model."""
    evaluation, outcomes = report.evaluation, report.outcomes
    examples, bins = outcomes.examples, evaluation.result.bins
    sentence, tone = verdict(evaluation)
    exception = outlier_class(outcomes)
    if exception is not None:
        sentence, tone = f"{sentence} {exception}", "fair" if tone == "good" else tone
    return {
        "name": shown(report.name, keep_end=True),
        "about": shown(report.about, max_length=500),
        "count": evaluation.result.count,
        "classes": outcomes.classes,
        "verdict": sentence,
        "tone": tone,
        "metrics": {name: _estimate(name, evaluation) for name in HELP},
        "fine": curves.fine_bins(examples),
        "risk_coverage": curves.risk_coverage_points(examples),
        "coverage": {"threshold": bins.lower.tolist(), "coverage": bins.coverage().tolist()},
        "at_threshold": curves.threshold_counts(examples),
        "guaranteed_accuracies": threshold_bounds(examples, confidence=curves.CERTAINTY)[2],
        "classes_predicted": len(np.unique(outcomes.predicted)),
        "classes_by_gap": classes_by_gap(outcomes),
        "confusions": confusions(outcomes),
        "inspection": report.inspection,
        "passes": report.passes,
        "training": report.training,
        "recipe": shown_values(report.recipe),
        "environment": shown_values(report.environment),
        "file": report.file,
        "command": shown(report.command, max_length=2000),
    }


def _metric_column(name: str) -> dict[str, Any]:
    better = None if name == "mean_confidence" else "higher" if name in HIGHER_IS_BETTER else "lower"
    return {"name": name, "title": LABELS[name], "better": better, "help": HELP[name]}


def _estimate(name: str, evaluation: Evaluation) -> dict[str, float | bool | None]:
    interval = evaluation.intervals.get(name)
    estimate = evaluation.metrics()[name]
    return {
        "estimate": estimate,
        "infinite": estimate is not None and math.isinf(estimate),  # JSON has no infinity
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
