"""What a page tells of one classifier: a file of predictions measured in one pass, and what else is known of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from singleshot.common.environment import describe_environment
from singleshot.common.files import fingerprint
from singleshot.data import Images
from singleshot.evaluation.core import MAX_RESAMPLED, Evaluation, Options, evaluate_file, resampled_groups
from singleshot.evaluation.formatting import amount
from singleshot.metrics.variance_histogram import VarianceBins, VarianceHistogram
from singleshot.predictions import Predictions, read_predictions
from singleshot.report.page.classes import AnswerGathering, Answers
from singleshot.report.page.gallery import EDGE, gallery
from singleshot.report.page.selection import DEFAULT_BINS
from singleshot.report.page.text import numbered


@dataclass(frozen=True, eq=False)
class Measured:
    """Predictions, measured."""

    evaluation: Evaluation
    answers: Answers
    classes: int
    class_names: tuple[str, ...] | None
    about_intervals: str

    def about(self) -> str:
        """How many answers are right, and where intervals come from."""
        return f"{100 * self.evaluation.result.accuracy:.1f} % right; {self.about_intervals}"


@dataclass(frozen=True, eq=False)
class Subject:
    """A classifier on a page."""

    name: str
    about: str
    command: str  # to have the same numbers again
    measured: Measured
    gallery: dict[str, Any] | None = None
    passes: dict[str, Any] | None = None
    training: list[dict[str, Any]] | None = None
    recipe: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None
    file: dict[str, int | str] | None = None  # its size and checksum, where it is one


def measure(predictions: Predictions, replicates: int | None) -> Measured:
    """Everything that one pass over the predictions gives, with the numbers of ``singleshot evaluate``."""
    gathering = AnswerGathering(predictions.classes)
    evaluation = evaluate_file(predictions, **measured_options(gathering, replicates))
    return measured(evaluation, gathering, predictions.classes, predictions.class_names, replicates)


def measured_options(gathering: AnswerGathering, replicates: int | None) -> Options:
    """Options of an evaluation for the page."""
    return {
        "bins": DEFAULT_BINS,
        "replicates": replicates,
        "keep_examples": True,
        "test_calibration": False,
        "on_batch": gathering.add,
    }


def measured(
    evaluation: Evaluation,
    gathering: AnswerGathering,
    classes: int,
    class_names: tuple[str, ...] | None,
    replicates: int | None,
) -> Measured:
    """An evaluation with its answers."""
    count = evaluation.result.count
    groups = resampled_groups(count)
    said = "no intervals"
    if count > MAX_RESAMPLED and replicates is None:
        said = f"no intervals above {MAX_RESAMPLED:,} examples unless asked for"
    if evaluation.intervals:
        of_what = f" of {groups:,} groups of examples" if groups else ""
        said = f"95 % intervals from {1000 if replicates is None else replicates:,} resamples{of_what}"
    return Measured(evaluation, gathering.finish(), classes, class_names, said)


def subject_of_file(
    path: Path,
    *,
    name: str | None = None,
    told: Mapping[str, Any] | None = None,
    replicates: int | None = None,
    images: Images | None = None,
    edge: int = EDGE,
) -> Subject:
    """A file of predictions, with the passes in it.

    Args:
        path: the file.
        name: what it is called on the page; by default its path.
        told: what `read_predictions` must be told of it.
        replicates: bootstrap resamples, 0 for none.
        images: what it predicts, in the order of the file; an error where their labels are others.
        edge: largest width and height of an image on the page.
    """
    said = {option: value for option, value in (told or {}).items() if value is not None}
    file = read_predictions(path, **said)
    found = measure(file, replicates)
    examples = found.evaluation.examples
    assert examples is not None
    if images is not None and not np.array_equal(found.answers.labels, images.labels.numpy()):
        raise ValueError(
            f"{path} does not predict these images: its {amount(len(examples), 'label')} are not those of the "
            f"{amount(len(images), 'image')} in their order; leave --dataset out, or name another --split"
        )
    size = f"{amount(len(examples), 'example')}, {amount(file.classes, 'class', 'classes')}"
    flags = [word for option, value in said.items() for word in (f"--{option.replace('_', '-')}", str(value))]
    return Subject(
        name=str(path) if name is None else name,
        about=f"{size}, {file.kind}; {found.about()}",
        command=evaluate_command(path, flags, replicates),
        measured=found,
        gallery=gallery(found.answers, examples, images, None, file.class_names, edge=edge),
        passes=passes_of_file(file),
        environment=describe_environment(),
        file=fingerprint(path),
    )


def evaluate_command(path: Path, flags: Sequence[str], replicates: int | None) -> str:
    """What to type to have the numbers of a page in a terminal."""
    asked = [] if replicates is None else ["--replicates", str(replicates)]
    return shlex.join(["singleshot", "evaluate", as_argument(path), *flags, *asked])


def as_argument(path: Path) -> str:
    """A path as it may stand in a command.

    >>> as_argument(Path("a.npz")), as_argument(Path("-a.npz"))
    ('a.npz', './-a.npz')
    """
    return f"./{path}" if str(path).startswith("-") else str(path)  # or it would be taken for a flag


def unique_names(paths: Sequence[Path]) -> list[str]:
    """A short name for each: the last part of its path; the whole path, or a number, where that is not enough.

    >>> unique_names([Path("runs/a"), Path("b.npz"), Path("old/b.npz"), Path("runs/a")])
    ['runs/a', 'b.npz', 'old/b.npz', 'runs/a (2)']
    """
    short = [path.name or str(path) for path in paths]
    names: list[str] = []
    for path, name in zip(paths, short, strict=True):
        names.append(numbered(name if short.count(name) == 1 else str(path), names))
    return names


FINE_BINS = 200
"""Of a good network most variances are near 0: the page makes its bars from these, over the range there is."""


def passes_of_file(predictions: Predictions) -> dict[str, Any] | None:
    """What the passes in a file say, from every example, a block at a time; None where it holds none."""
    if not predictions.passes:
        return None
    histogram = VarianceHistogram(FINE_BINS)
    for batch in predictions.pass_batches():
        histogram.update(**batch)
    bins = histogram.compute()
    return passes_data(bins, predictions.passes, of=int(bins.count.sum()))


def passes_data(bins: VarianceBins, samples: int, *, of: int) -> dict[str, Any]:
    """A variance histogram as plain lists; it may be of some among many examples."""
    fields = ("lower", "upper", "count", "accuracy", "score", "coverage")
    counts = {"samples": samples, "examples": int(bins.count.sum()), "of": of}
    return {**counts, **{name: getattr(bins, name).tolist() for name in fields}}
