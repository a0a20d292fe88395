"""Everything a page shows, as plain values ready for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

import numpy as np

from singleshot import __version__
from singleshot.evaluation.comparison import COMPARED, Baseline
from singleshot.evaluation.formatting import difference_label, metric_label
from singleshot.evaluation.verdict import verdict
from singleshot.metrics.estimates import HIGHER_IS_BETTER
from singleshot.report.page.classes import CONFUSION_THRESHOLD, classes_by_gap, confusions, odd_class
from singleshot.report.page.selection import (
    BIN_CHOICES,
    DEFAULT_BINS,
    EXPLORED,
    coverage_points,
    fine_bins,
    guarantee_rules,
    risk_coverage_points,
    sure_accuracies,
    threshold_counts,
)
from singleshot.report.page.subject import Subject
from singleshot.report.page.text import numbered, plain_value, shown, shown_end

HELP = {
    "accuracy": "Share of examples whose predicted class is right.",
    "mean_confidence": "Average score of the predicted class; of a calibrated classifier it equals the accuracy.",
    "ece": "Expected calibration error: how far confidence and accuracy are apart, averaged over 20 bins of the score.",
    "mce": "Maximum calibration error: the gap in the worst bin, which may hold few examples.",
    "nll": "Negative log-likelihood: the average surprise at the right answer; accuracy and calibration in one.",
    "brier": "Squared distance between the probabilities and the right answer; accuracy and calibration in one.",
    "aurc": "Area under the risk–coverage curve: the average error rate over all thresholds.",
    "debiased_ece": "The ECE less what chance alone is expected to add.",
    "adaptive_ece": "The ECE with bins that hold equally many examples.",
    "smooth_ece": "The ECE with a smooth kernel in place of bins.",
    "rmsce": "Root-mean-square calibration error: as the ECE, with large gaps weighing more.",
    "overconfidence": "The part of the ECE from bins where confidence is above accuracy.",
    "underconfidence": "The part of the ECE from bins where confidence is below accuracy.",
    "excess_aurc": "The AURC above that of a perfect order, all right answers before any wrong one.",
}
"""The metrics of the table, in the order of its columns."""


def page_data(
    subjects: Iterable[Subject], *, title: str, replicates: int | None = None, command: str | None = None
) -> dict[str, Any]:
    """The data of a page that this command makes. Subjects may come from a generator: only the first is kept."""
    models: list[dict[str, Any]] = []
    comparisons = ComparisonsWithFirst(replicates)
    for subject in subjects:
        model = model_data(subject)
        model["name"] = numbered(model["name"], [other["name"] for other in models])  # cut, two may be the same
        model["same_examples"] = comparisons.add(subject, model["name"])  # as the first
        models.append(model)
    page = {
        "title": shown(title, longest=200),
        "singleshot": __version__,
        "command": None if command is None else shown(command, longest=10_000),
        "made": datetime.now(timezone.utc).date().isoformat(),
        "bin_choices": BIN_CHOICES,
        "default_bins": DEFAULT_BINS,
        "thresholds": EXPLORED,
        "guarantee": guarantee_rules(),
        "confusion_threshold": CONFUSION_THRESHOLD,
        "metrics": [_metric_column(name) for name in HELP],
        "models": models,
        "comparisons": comparisons.found,
        "compared": [{**_metric_column(name), "title": difference_label(name)} for name in COMPARED],
    }
    return dict(_finite(page))


def model_data(subject: Subject) -> dict[str, Any]:
    """What a page shows of one classifier."""
    measured = subject.measured
    evaluation, examples = measured.evaluation, measured.evaluation.examples
    assert examples is not None
    sentence, tone = verdict(evaluation)
    odd = odd_class(measured.answers, examples, measured.class_names)
    if odd is not None:
        sentence, tone = f"{sentence} {odd}", "fair" if tone == "good" else tone
    return {
        "name": shown_end(subject.name),
        "about": shown(subject.about, longest=500),
        "count": evaluation.result.count,
        "classes": measured.classes,
        "verdict": sentence,
        "tone": tone,
        "metrics": {name: _estimate(name, subject) for name in HELP},
        "fine": fine_bins(examples),
        "risk_coverage": risk_coverage_points(examples),
        "coverage": coverage_points(evaluation.result),
        "at_threshold": threshold_counts(examples),
        "sure_accuracies": sure_accuracies(examples),
        "classes_predicted": len(np.unique(measured.answers.predicted)),
        "classes_by_gap": classes_by_gap(measured.answers, examples, measured.class_names),
        "confusions": confusions(measured.answers, examples, measured.class_names),
        "gallery": subject.gallery,
        "passes": subject.passes,
        "training": subject.training,
        "recipe": plain_value(subject.recipe),
        "environment": plain_value(subject.environment),
        "file": subject.file,
        "command": shown(subject.command, longest=2000),
    }


def _metric_column(name: str) -> dict[str, Any]:
    better = None if name == "mean_confidence" else "higher" if name in HIGHER_IS_BETTER else "lower"
    return {"name": name, "title": metric_label(name), "better": better, "help": HELP[name]}


def _estimate(name: str, subject: Subject) -> dict[str, float | bool | None]:
    evaluation = subject.measured.evaluation
    interval = evaluation.intervals.get(name)
    estimate = evaluation.metrics()[name]
    return {
        "estimate": estimate,
        "infinite": estimate is not None and math.isinf(estimate),  # JSON has no number for it
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
    }


def _finite(value: Any) -> Any:
    """The same with None for every number that JSON cannot hold, and Python's own numbers for numpy's."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return plain_value(float(value)) if isinstance(value, float) else value


SHOWN = ("metric", "difference", "low", "high", "p_value")


class ComparisonsWithFirst:
    """Takes subjects one by one, and keeps the examples of the first alone."""

    def __init__(self, replicates: int | None) -> None:
        self._replicates = replicates
        self._baseline: tuple[str, Baseline] | None = None
        self.found: list[dict[str, Any]] = []

    def add(self, subject: Subject, name: str) -> bool:
        """Compare a subject with the first; this may be the first. Returns whether both are of the same examples."""
        evaluation = subject.measured.evaluation
        if self._baseline is None:
            self._baseline = (name, Baseline(evaluation, replicates=self._replicates, bins=DEFAULT_BINS))
            return True
        against, baseline = self._baseline
        if self._replicates != 0:
            compared = baseline.compare(evaluation)
            entry: dict[str, Any] = {"of": name, "against": against, "why": None, "differences": []}
            if compared.differences is None:
                self.found.append({**entry, "why": f"{name} and {against} {compared.reason}."})
            else:
                plain = [{field: getattr(one, field) for field in SHOWN} for one in compared.differences]
                self.found.append({**entry, "differences": plain})
        return baseline.has_same_examples(evaluation)
