"""What several seeds say together: mean and standard error of every metric, and their pooled calibration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from singleshot.experiments.estimate import Estimate
from singleshot.experiments.quickstart import Run
from singleshot.metrics import Calibration, CalibrationResult


@dataclass(frozen=True)
class MethodSummary:
    """All runs of one method."""

    method: str
    metrics: dict[str, Estimate]
    pooled: CalibrationResult  # the predictions of all seeds together

    def to_dict(self) -> dict[str, Any]:
        """Every estimate, and the pooled bins, as plain values."""
        return {
            "metrics": {name: vars(estimate) for name, estimate in self.metrics.items()},
            "pooled": self.pooled.to_dict(),
        }


def summarize(method: str, runs: Iterable[Run]) -> MethodSummary:
    """Estimates over the runs of one method, training time among them."""
    runs = list(runs)
    results = [run.calibration.compute().metrics() for run in runs]
    metrics = {name: Estimate.of([result[name] for result in results]) for name in results[0]}
    metrics["train_seconds"] = Estimate.of([run.seconds for run in runs])
    pooled = Calibration(bins=20)
    for run in runs:
        pooled.merge(run.calibration)
    return MethodSummary(method, metrics, pooled.compute())


COLUMNS = {
    "accuracy": ("accuracy", max),
    "ECE": ("ece", min),
    "MCE": ("mce", min),
    "NLL": ("nll", min),
    "Brier": ("brier", min),
}
"""Heading: the metric, and which of two values is better."""


def table_rows(summaries: Sequence[MethodSummary], bold: tuple[str, str]) -> tuple[list[str], list[list[str]]]:
    """Header and cells of the comparison, the best mean of each column wrapped in ``bold``."""
    best = {metric: pick(s.metrics[metric].mean for s in summaries) for metric, pick in COLUMNS.values()}
    rows = []
    for summary in summaries:
        cells = [summary.method]
        for metric, _ in COLUMNS.values():
            estimate = summary.metrics[metric]
            cells.append(f"{bold[0]}{estimate}{bold[1]}" if estimate.mean == best[metric] else str(estimate))
        cells.append(f"{summary.metrics['train_seconds'].mean:.1f} s")
        rows.append(cells)
    return ["method", *COLUMNS, "training"], rows


def markdown_table(summaries: Sequence[MethodSummary]) -> str:
    """The comparison as a Markdown table."""
    header, rows = table_rows(summaries, bold=("**", "**"))
    rule = ["---", *["---:" for _ in header[1:]]]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *rows])
