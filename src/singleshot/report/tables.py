"""Metrics as lines of text: one column per classifier, each number with its interval where there is one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from singleshot.metrics import CalibrationResult, Comparison, ConsistencyTest, Interval

LABELS = {
    "accuracy": "Accuracy",
    "mean_confidence": "Mean confidence",
    "ece": "ECE",
    "debiased_ece": "ECE, debiased",
    "adaptive_ece": "ECE, equal-mass",
    "smooth_ece": "ECE, smooth",
    "classwise_ece": "ECE, classwise",
    "mce": "MCE",
    "rmsce": "RMSCE",
    "nll": "NLL",
    "brier": "Brier",
    "aurc": "AURC",
    "overconfidence": "Overconfidence",
    "underconfidence": "Underconfidence",
}
"""Every metric in the order it is shown in."""


def metric_label(name: str) -> str:
    """What a metric is called in a table.

    >>> metric_label("adaptive_ece"), metric_label("my_score")
    ('ECE, equal-mass', 'My score')
    """
    return LABELS.get(name, name.replace("_", " ").capitalize())


def in_order(names: Sequence[str]) -> list[str]:
    """Metrics as a table lists them: known ones first."""
    known = [name for name in LABELS if name in names]
    return known + [name for name in names if name not in LABELS]


def metric_lines(metrics: Mapping[str, float], intervals: Mapping[str, Interval]) -> list[str]:
    """A line per metric: its value and, where it is known, its interval."""
    lines = [f"  {'':<16} {'':8}   95 % interval"] if intervals else []
    for name in in_order(list(metrics)):
        line = f"  {metric_label(name):<16} {metrics[name]:8.4f}"
        if name in intervals and math.isfinite(intervals[name].low):
            line += f"   {intervals[name].low:.4f} – {intervals[name].high:.4f}"
        lines.append(line)
    return lines


def comparison_lines(names: Sequence[str], columns: Sequence[Mapping[str, float]]) -> list[str]:
    """A line per metric that all have, a column per classifier, under its name."""
    shared = [name for name in in_order(list(columns[0])) if all(name in column for column in columns)]
    widths = [max(8, len(name)) for name in names]
    heads = "  ".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
    lines = [f"  {'':<16}  {heads}"]
    for metric in shared:
        values = "  ".join(f"{column[metric]:{width}.4f}" for column, width in zip(columns, widths, strict=True))
        lines.append(f"  {metric_label(metric):<16}  {values}")
    return lines


def difference_lines(differences: Sequence[Comparison]) -> list[str]:
    """A line per metric: the difference of two classifiers on the same examples, and whether chance explains it."""
    lines = [f"  {'':<16} {'':8}   95 % interval         p"]
    for one in differences:
        ends = f"{one.low:+.4f} – {one.high:+.4f}"
        lines.append(f"  {metric_label(one.metric):<16} {one.difference:+8.4f}   {ends}   {one.p_value:.3f}")
    return lines


def verdict(result: CalibrationResult) -> str:
    """Whether confidence is too high or too low, on average and in points of a hundred."""
    gap = result.mean_confidence - result.accuracy
    direction = "overconfident" if gap > 0 else "underconfident"
    return f"On average {direction} by {abs(gap) * 100:.1f} points."


def consistency_line(test: ConsistencyTest) -> str:
    """Whether perfect calibration is ruled out, at the usual level of 5 %."""
    if test.p_value <= 0.05:
        return f"Perfect calibration is ruled out (p = {test.p_value:.3f})."
    return f"This much error would be no surprise from perfect calibration (p = {test.p_value:.3f})."
