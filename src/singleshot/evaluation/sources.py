"""What ``singleshot evaluate`` knows of each source, a file or a run, and how it tells it."""

from __future__ import annotations

import math
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from singleshot.common.text import printable
from singleshot.evaluation.comparison import AgainstFirst
from singleshot.evaluation.evaluation import Evaluation, evaluate_predictions
from singleshot.evaluation.text import amount, average_gap, consistency_line, difference_lines, metric_lines
from singleshot.evaluation.verdict import verdict
from singleshot.metrics import CalibrationResult, Comparison, Threshold, threshold_for_accuracy
from singleshot.metrics.estimates import METRICS
from singleshot.predictions import Predictions, read_predictions
from singleshot.predictions.reading import is_predictions


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

    def evaluate(self, predictions: Predictions) -> Evaluation:
        """What was asked for, of a file."""
        return evaluate_predictions(
            predictions,
            bins=self.bins,
            classwise=self.classwise,
            replicates=self.replicates,
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
        found: dict[str, Any] = {**self.about, **dict.fromkeys(METRICS), **beyond, **result_dict(evaluation.result)}
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
        lines = [self.title, *metric_lines(evaluation.metrics(), evaluation.intervals)]
        judged = average_gap(evaluation.result) if evaluation.examples is None else verdict(evaluation)[0]
        lines += [*evaluation.remarks(), judged]
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
    """Two sources on the same examples; differences are None where there are none, and then it is said why."""

    of: str
    against: str
    differences: list[Comparison] | None
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Every number as plain values, ready for JSON."""
        differences = self.differences
        found = None if differences is None else {one.metric: _plain_values(one) for one in differences}
        reason = {"why": self.why} if differences is None else {}
        return {"of": self.of, "against": self.against, "differences": found, **reason}

    def lines(self) -> list[str]:
        """The differences, or why there are none."""
        if self.differences is None:
            return [printable(f"{self.of} and {self.against} {self.why}.")]
        title = (
            f"{printable(self.of)} minus {printable(self.against)}, on the same examples, without the bias of chance"
        )
        return [title, *difference_lines(self.differences)]


def evaluate_source(path: Path, wanted: Wanted) -> Evaluated:
    """Measure a file of predictions, or a run."""
    if is_predictions(path):
        if wanted.predictions is not None:
            raise ValueError(f"--predictions {wanted.predictions} is for runs; {path} is a file of predictions already")
        file = read_predictions(path, **wanted.told)
        evaluation = wanted.evaluate(file)
        size = f"{amount(evaluation.result.count, 'example')}, {amount(file.classes, 'class', 'classes')}"
        title = printable(f"{path}: {size}, {file.kind}")
        about = {"file": str(path), "kind": file.kind, "classes": file.classes}
        return Evaluated(str(path), title, about, evaluation)
    return _evaluate_run(path, wanted)


def comparisons(found: list[Evaluated], replicates: int | None, bins: int) -> list[Compared]:
    """Each source but the first against the first; without being asked to, only where it takes seconds."""
    if replicates == 0:
        return []
    first = found[0]
    against = AgainstFirst(first.evaluation.examples, replicates=replicates, bins=bins)
    made = []
    for one in found[1:]:
        compared = against.compare(one.evaluation.examples)
        if isinstance(compared, str):
            made.append(Compared(one.name, first.name, None, compared))
        else:
            made.append(Compared(one.name, first.name, compared))
    return made


def _evaluate_run(folder: Path, wanted: Wanted) -> Evaluated:
    from singleshot.evaluation.runs import evaluate_run

    with tempfile.TemporaryDirectory() as temporary:
        file = wanted.predictions or Path(temporary) / "predictions.npz"
        result, step = evaluate_run(folder, predictions=file, **wanted.of_run)
        evaluation = wanted.evaluate(read_predictions(file))
    split, weights = wanted.of_run["split"], wanted.of_run["weights"]
    size = amount(result.count, f"{split} image")
    title = printable(f"{folder}: {size}, one forward pass each, after step {step:,}")
    return Evaluated(
        str(folder), title, {"run": str(folder), "split": split, "weights": weights, "step": step}, evaluation
    )


def result_dict(result: CalibrationResult) -> dict[str, Any]:
    """Metrics and bins as plain values; an infinite NLL, which JSON has no number for, is said beside its null."""
    return {**result.to_dict(), **({"nll_is_infinite": True} if math.isinf(result.nll) else {})}


def _plain_values(numbers: Any) -> dict[str, Any]:
    """The fields of a dataclass, ready for JSON."""
    return {name: _plain(value) for name, value in asdict(numbers).items()}


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
