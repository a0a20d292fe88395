"""What ``singleshot evaluate`` knows of each source, a file or a run, and how it tells it."""

from __future__ import annotations

import math
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from singleshot.metrics import Comparison, Threshold, paired_bootstrap, threshold_for_accuracy
from singleshot.predictions import FORMATS, Predictions, read_predictions
from singleshot.predictions.evaluation import MOST_RESAMPLED, Evaluation, evaluate_predictions
from singleshot.report.tables import consistency_line, difference_lines, metric_lines, verdict

COMPARED = ("accuracy", "ece", "nll", "brier")
"""Metrics by which two sources are compared; each costs as much as the intervals of both."""


@dataclass(frozen=True)
class Wanted:
    """What to measure, and what was said about the sources."""

    bins: int
    classwise: bool
    replicates: int | None
    keep_examples: bool
    told: dict[str, Any]  # about files
    of_run: dict[str, Any]
    predictions: Path | None

    def evaluate(self, predictions: Predictions, replicates: int | None) -> Evaluation:
        """What was asked for, of a file."""
        return evaluate_predictions(
            predictions,
            bins=self.bins,
            classwise=self.classwise,
            replicates=replicates,
            keep_examples=self.keep_examples,
        )


@dataclass(frozen=True)
class Evaluated:
    """A source and its evaluation."""

    name: str
    title: str
    about: dict[str, Any]
    evaluation: Evaluation = field(repr=False)

    def to_dict(self, accuracy: float | None) -> dict[str, Any]:
        """Every number as plain values, ready for JSON."""
        evaluation = self.evaluation
        beyond = {name: _plain(value) for name, value in evaluation.metrics().items()}
        found: dict[str, Any] = {**self.about, **beyond, **evaluation.result.to_dict()}
        if evaluation.intervals:
            found["intervals"] = {name: _plain_values(one) for name, one in evaluation.intervals.items()}
        if evaluation.consistency is not None:
            found["consistency"] = _plain_values(evaluation.consistency)
        if accuracy is not None:
            found["threshold"] = _plain_values(self._threshold(accuracy))
        return found

    def lines(self, accuracy: float | None) -> list[str]:
        """A table, what it comes to, and the threshold for a wanted accuracy."""
        evaluation = self.evaluation
        lines = [self.title, *metric_lines(evaluation.metrics(), evaluation.intervals), verdict(evaluation.result)]
        if evaluation.consistency is not None:
            lines.append(consistency_line(evaluation.consistency))
        if accuracy is not None:
            message = self._threshold(accuracy).message
            lines.append(f"{message[0].upper()}{message[1:]}.")
        return lines

    def _threshold(self, accuracy: float) -> Threshold:
        assert self.evaluation.examples is not None
        return threshold_for_accuracy(self.evaluation.examples, accuracy)


@dataclass(frozen=True)
class Compared:
    """Two sources on the same examples; differences are None where the examples are not the same."""

    of: str
    against: str
    differences: list[Comparison] | None

    def to_dict(self) -> dict[str, Any]:
        """Every number as plain values, ready for JSON."""
        differences = self.differences
        found = None if differences is None else {one.metric: _plain_values(one) for one in differences}
        return {"of": self.of, "against": self.against, "differences": found}

    def lines(self) -> list[str]:
        """The differences, or why there are none."""
        if self.differences is None:
            return [f"{self.of} and {self.against} have different labels: each is an estimate of its own."]
        title = f"{self.of} minus {self.against}, on the same examples, without the bias of chance"
        return [title, *difference_lines(self.differences)]


def evaluate_source(path: Path, wanted: Wanted) -> Evaluated:
    """Measure a file of predictions, or a run."""
    if not path.is_dir() and (path.is_file() or path.name.lower().endswith(FORMATS)):
        if wanted.predictions is not None:
            raise ValueError(f"--predictions {wanted.predictions} is for runs; {path} is a file of predictions already")
        file = read_predictions(path, **wanted.told)
        evaluation = wanted.evaluate(file, wanted.replicates)
        title = f"{path}: {evaluation.result.count:,} examples, {file.classes} classes, {file.kind}"
        about = {"file": str(path), "kind": file.kind, "classes": file.classes}
        return Evaluated(str(path), title, about, evaluation)
    return _evaluate_run(path, wanted)


def comparisons(found: list[Evaluated], replicates: int | None, bins: int) -> list[Compared]:
    """Each source but the first against the first; without being asked to, only where it takes seconds."""
    if replicates is None:
        replicates = 1000 if all(one.evaluation.result.count <= MOST_RESAMPLED for one in found) else 0
    return [_compare(one, found[0], replicates, bins) for one in found[1:]] if replicates else []


def _compare(one: Evaluated, first: Evaluated, replicates: int, bins: int) -> Compared:
    a, b = one.evaluation.examples, first.evaluation.examples
    assert a is not None
    assert b is not None
    if len(a) != len(b) or a.labels_digest != b.labels_digest:
        return Compared(one.name, first.name, None)
    metrics = [source.evaluation.result.metrics() for source in (one, first)]
    finite = [name for name in COMPARED if all(math.isfinite(values[name]) for values in metrics)]
    differences = [paired_bootstrap(a, b, name, replicates=replicates, bins=bins) for name in finite]
    return Compared(one.name, first.name, differences)


def _evaluate_run(folder: Path, wanted: Wanted) -> Evaluated:
    from singleshot.training.judgement import evaluate_run

    with tempfile.TemporaryDirectory() as temporary:
        file = wanted.predictions or Path(temporary) / "predictions.npz"
        beyond_bins = wanted.keep_examples or wanted.replicates or wanted.bins != 20 or wanted.classwise
        kept = file if beyond_bins or wanted.predictions is not None else None
        result, step = evaluate_run(folder, predictions=kept, **wanted.of_run)
        evaluation = Evaluation(result, None)
        if beyond_bins:
            evaluation = wanted.evaluate(read_predictions(file), wanted.replicates or 0)
    split, weights = wanted.of_run["split"], wanted.of_run["weights"]
    title = f"{folder}: {result.count:,} {split} images, one forward pass each, after step {step:,}"
    return Evaluated(
        str(folder), title, {"run": str(folder), "split": split, "weights": weights, "step": step}, evaluation
    )


def _plain_values(numbers: Any) -> dict[str, Any]:
    """The fields of a dataclass, ready for JSON."""
    return {name: _plain(value) for name, value in asdict(numbers).items()}


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
