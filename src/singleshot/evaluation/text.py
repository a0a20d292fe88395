"""Metrics as lines of text: one column per classifier, each number with its interval where there is one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from singleshot.common.text import printable

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
    "excess_aurc": "AURC, excess",
    "overconfidence": "Overconfidence",
    "underconfidence": "Underconfidence",
}
"""Every metric in the order it is shown in."""
ABOUT_ECE_INTERVALS = (
    "  (An interval beside an ECE is for the true error, without the bias of chance: it may lie below the estimate.)"
)


def metric_label(name: str) -> str:
    """What a metric is called in a table.

    >>> metric_label("adaptive_ece"), metric_label("my_score")
    ('ECE, equal-mass', 'My score')
    """
    return LABELS.get(name, name.replace("_", " ").capitalize())


def difference_label(name: str) -> str:
    """What the difference of a metric is called: chance pushes up the ECE of both, and is taken out of each."""
    return metric_label("debiased_ece" if name == "ece" else name)


def in_order(names: Sequence[str]) -> list[str]:
    """Metrics as a table lists them: known ones first."""
    known = [name for name in LABELS if name in names]
    return known + [name for name in names if name not in LABELS]


def number(value: float, width: int = 8) -> str:
    """A value as a column of a table has it; one too large for its digits by its power of ten.

    >>> number(0.5), number(1e30)
    ('  0.5000', '   1e+30')
    """
    return f"{value:{width}.4f}" if abs(value) < 1000 else f"{value:{width}.4g}"


def amount(count: int, one: str, several: str | None = None) -> str:
    """So many of something.

    >>> amount(1, "example"), amount(1500, "example"), amount(2, "class", "classes")
    ('1 example', '1,500 examples', '2 classes')
    """
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def metric_lines(metrics: Mapping[str, float], intervals: Mapping[str, Interval]) -> list[str]:
    """A line per metric: its value and, where it is known, its interval."""
    lines = [f"  {'':<16} {'':8}   95 % interval"] if intervals else []
    for name in in_order(list(metrics)):
        line = f"  {metric_label(name):<16} {number(metrics[name])}"
        if name in intervals and math.isfinite(intervals[name].low):
            line += f"   {number(intervals[name].low, 0)} – {number(intervals[name].high, 0)}"
        lines.append(line)
    if "ece" in intervals:
        lines.append(ABOUT_ECE_INTERVALS)
    return lines


def comparison_lines(names: Sequence[str], columns: Sequence[Mapping[str, float]]) -> list[str]:
    """A line per metric that all have, a column per classifier, under its name."""
    shared = [name for name in in_order(list(columns[0])) if all(name in column for column in columns)]
    names = [printable(name) for name in names]
    widths = [max(8, len(name)) for name in names]
    heads = "  ".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
    lines = [f"  {'':<16}  {heads}"]
    for metric in shared:
        values = "  ".join(number(column[metric], width) for column, width in zip(columns, widths, strict=True))
        lines.append(f"  {metric_label(metric):<16}  {values}")
    return lines


def difference_lines(differences: Sequence[Comparison]) -> list[str]:
    """A line per metric: the difference of two classifiers on the same examples, and whether chance explains it."""
    lines = [f"  {'':<16} {'':8}   95 % interval         p"]
    for one in differences:
        middle, low, high = (_signed(value) for value in (one.difference, one.low, one.high))
        lines.append(f"  {difference_label(one.metric):<16} {middle:>8}   {low} – {high}   {one.p_value:.3f}")
    return lines


def _signed(value: float) -> str:
    return f"{value:+.4f}" if abs(value) < 1000 else f"{value:+.4g}"


def average_gap(result: CalibrationResult) -> str:
    """Whether confidence is too high or too low, on average and in points of a hundred."""
    gap = result.mean_confidence - result.accuracy
    if abs(gap) < 0.0005:
        return "On average neither over- nor underconfident."
    direction = "overconfident" if gap > 0 else "underconfident"
    return f"On average {direction} by {abs(gap) * 100:.1f} points."


def consistency_line(test: ConsistencyTest) -> str:
    """How surprising the ECE alone would be from perfect calibration; the verdict weighs it with the mean."""
    return f"Perfect calibration would show so large an ECE by chance with p = {test.p_value:.3f}."
