"""Evaluations and comparisons as lines of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from singleshot.common.text import printable
from singleshot.evaluation.evaluation import BaselineComparison, Evaluation
from singleshot.evaluation.formatting import LABELS, difference_label, number
from singleshot.evaluation.verdict import WIDTH, verdict
from singleshot.metrics.calibration import CalibrationResult


def evaluation_lines(evaluation: Evaluation, accuracy: float | None = None) -> list[str]:
    """The metrics with their intervals, the verdict, and the threshold for an accuracy if one is given."""
    metrics, intervals = evaluation.metrics(), evaluation.intervals
    lines = [printable(f"{evaluation.name}: {evaluation.about}")]
    fault = evaluation.label_fault
    judged = [average_gap(evaluation.result)] if evaluation.examples is None else verdict(evaluation).lines()
    if fault is not None and evaluation.examples is None:
        judged = [*wrap(f"{fault.headline} {fault.advice}", WIDTH), *judged]
    is_first = fault is not None and fault.is_certain  # nothing below it is worth reading
    lines += judged if is_first else []
    if intervals:
        lines.append(f"  {'':<16} {'':8}   95 % interval")
    for name in (name for name in LABELS if name in metrics):
        line = f"  {LABELS[name]:<16} {number(metrics[name])}"
        if name in intervals and math.isfinite(intervals[name].low):
            line += f"   {number(intervals[name].low, 0)} – {number(intervals[name].high, 0)}"
        lines.append(line)
    lines += evaluation.notes()
    lines += [] if is_first else judged
    if accuracy is not None:
        message = evaluation.threshold(accuracy).message
        lines.append(f"{message[0].upper()}{message[1:]}.")
    return lines


def evaluation_dict(evaluation: Evaluation, accuracy: float | None = None) -> dict[str, Any]:
    """Every number and the verdict as plain values for JSON; the verdict is null if the examples were not kept.

    The p-value of perfect calibration is that of the verdict.
    """
    found = None if evaluation.examples is None else verdict(evaluation).to_dict()
    return {**evaluation.to_dict(accuracy), "verdict": found}


def table_lines(evaluations: Sequence[Evaluation]) -> list[str]:
    """A line per metric that all evaluations have, and a column per evaluation."""
    columns = [one.metrics() for one in evaluations]
    names = [printable(one.name) for one in evaluations]
    widths = [max(8, len(name)) for name in names]
    heads = "  ".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
    lines = [f"  {'':<16}  {heads}"]
    for metric, label in LABELS.items():
        if all(metric in column for column in columns):
            values = "  ".join(number(column[metric], width) for column, width in zip(columns, widths, strict=True))
            lines.append(f"  {label:<16}  {values}")
    return lines


def comparison_lines(comparison: BaselineComparison) -> list[str]:
    """A line per metric: its difference from the baseline with interval and p-value; or why there is none."""
    if comparison.differences is None:
        return [printable(f"{comparison.of} and {comparison.against} {comparison.reason}.")]
    lines = [
        printable(f"{comparison.of} minus {comparison.against}, on the same examples, corrected for bias"),
        f"  {'':<16} {'':8}   95 % interval         p",
    ]
    for one in comparison.differences:
        difference, low, high = (number(value, 0, "+") for value in (one.difference, one.low, one.high))
        lines.append(f"  {difference_label(one.metric):<16} {difference:>8}   {low} – {high}   {one.p_value:.3f}")
    return lines


def average_gap(result: CalibrationResult) -> str:
    """Over- or underconfidence on average, in percentage points."""
    gap = result.mean_confidence - result.accuracy
    if abs(gap) < 0.0005:
        return "Neither over- nor underconfident on average."
    direction = "Overconfident" if gap > 0 else "Underconfident"
    return f"{direction} by {abs(gap) * 100:.1f} points on average."
