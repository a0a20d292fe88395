"""The evaluation of a model, and a page about models, in one call each."""

from __future__ import annotations

import base64
import html
import io
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from singleshot.common.checks import check_choice, check_loader, probability_rows
from singleshot.common.environment import describe_environment
from singleshot.common.files import check_writable, write_text
from singleshot.common.text import shown
from singleshot.evaluation.evaluation import Evaluation, evaluate_batches, evaluate_file
from singleshot.evaluation.formatting import LABELS, amount, number
from singleshot.evaluation.gain import ScoreSample, cross_fitted_gain
from singleshot.evaluation.summary import evaluation_dict, evaluation_lines
from singleshot.evaluation.verdict import verdict
from singleshot.metrics.examples import scores_and_labels
from singleshot.predictions import Predictions, read_predictions, write_predictions
from singleshot.predictions.formats import is_predictions
from singleshot.predictions.validation import as_logits
from singleshot.reporting.figures import plot_reliability
from singleshot.reporting.page.model_report import (
    DEFAULT_BINS,
    ModelReport,
    describe,
    evaluate_with_outcomes,
    file_report,
    run_report,
)
from singleshot.reporting.page.next_step import fix_of_file, next_step
from singleshot.reporting.page.outcomes import Outcomes, examples_to_inspect
from singleshot.reporting.page.rendering import write_page
from singleshot.training.loaders import loader_scores

if TYPE_CHECKING:
    from singleshot.sampling.arguments import Extract

Kind = Literal["logits", "probs"]
KINDS: tuple[Kind, ...] = ("logits", "probs")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ModelEvaluation(Evaluation):
    """The evaluation of a model with its predictions. ``print`` and notebooks show every metric.

    `metrics` returns the metrics by name, ``intervals`` has their intervals, ``result`` the bins.
    """

    batch: dict[str, Any]  # scores and labels, as arguments of `evaluate_batches`
    outcomes: Outcomes
    sample: ScoreSample

    def notes(self) -> list[str]:
        """Add to the notes of every evaluation that all labels are the same class."""
        labels = self.outcomes.labels
        same = self.outcomes.classes and len(labels) and (labels == labels[0]).all()
        return [*super().notes(), *(["All labels are the same class."] if same else [])]

    def report(self, path: Path | str, *, title: str | None = None) -> Path:
        """Write a page about this model, as ``singleshot report`` does, and return its path."""
        return report(self, path, title=title)

    def save(self, path: Path | str) -> None:
        """Write every number to a .json file, or the predictions to an .npz file that every command reads."""
        path = Path(path)
        if path.suffix == ".json":
            write_text(path, json.dumps(evaluation_dict(self), indent=2, allow_nan=False))
        elif path.suffix == ".npz":
            kind = next((kind for kind in KINDS if kind in self.batch), None)
            if kind is None:
                raise ValueError("only the confidence of the predicted class is known; save to a .json file")
            logits = as_logits(self.batch[kind].cpu().numpy(), kind)
            write_predictions(path, [(logits, self.outcomes.labels)], class_names=self.outcomes.class_names)
        else:
            raise ValueError(f"{path} must end in .json, for the numbers, or in .npz, for the predictions")

    def __repr__(self) -> str:
        return "\n".join(evaluation_lines(self))

    def _repr_html_(self) -> str:
        metrics = self.metrics()
        rows = [
            f"<tr><th>{LABELS[name]}</th><td>{number(metrics[name], 0)}</td><td>{self._interval(name)}</td></tr>"
            for name in LABELS
            if name in metrics
        ]
        head = "<tr><th></th><th></th><th>95 % interval</th></tr>"
        return (
            f"<p><b>{html.escape(self.name)}</b>: {html.escape(self.about)}</p><p>{html.escape(str(verdict(self)))}</p>"
            f'<div style="display: flex; flex-wrap: wrap; align-items: flex-start; gap: 1rem">'
            f'<table>{head}{"".join(rows)}</table><img alt="Reliability diagram" '
            f'src="data:image/png;base64,{self._diagram()}"></div>'
        )

    def _interval(self, name: str) -> str:
        found = self.intervals.get(name)
        return "" if found is None else f"{number(found.low, 0)} – {number(found.high, 0)}"

    def _diagram(self) -> str:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.3, 4.2), layout="constrained")
        plot_reliability(self.result, ax=figure.add_subplot())
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=90)
        return base64.b64encode(file.getvalue()).decode()


def evaluate(
    predictions: nn.Module | Any,
    labels: Iterable[Any] | None = None,
    *,
    kind: Kind | Literal["confidence"] | None = None,
    logits: Extract | None = None,
    ignore_index: int | None = None,
    name: str | None = None,
    class_names: Sequence[str] | None = None,
    bins: int = 20,
    classwise: bool = False,
    replicates: int | None = None,
    progress: bool = True,
    **reading: Any,
) -> ModelEvaluation:
    """Evaluate a model on a data loader, or its predictions: every metric with its interval.

    Args:
        predictions: a model; or its scores (N, C), as a tensor, an array or a DataFrame; or those of the positive class
            (N,) or (N, 1) of a binary classifier; or a file of predictions.
        labels: for a model, a loader of batches (inputs, labels) or of dicts with ``labels``; for scores, the labels
            (N,), which can be the names of columns or of ``class_names``; for a file, nothing. The model runs in
            evaluation mode, once, and is left as it was.
        kind: what the scores, or the outputs of the model, are: ``logits``, which is the default, or ``probs``. For a
            file, as in `read_predictions`.
        logits: finds the logits in the output of the model, as in `singleshot.sample`.
        ignore_index: label of the examples to leave out, such as −100, which the losses ignore. By default none is.
        name: of the model, for the page.
        class_names: one per class.
        bins: equal-width bins of the confidence.
        classwise: also compute the classwise ECE.
        replicates: bootstrap resamples for the intervals; by default 1,000, or none above a million examples.
        progress: show a progress bar while the model runs, in a terminal or a notebook.
        **reading: for a file, other options of `read_predictions`.

    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]])
    >>> evaluation = evaluate(logits, torch.tensor([0, 1, 1]))
    >>> round(evaluation.metrics()["ece"], 3), evaluation.result.count
    (0.447, 3)
    """
    names = None if class_names is None else tuple(map(str, class_names))
    options = {"bins": bins, "classwise": classwise, "replicates": replicates}
    named = "predictions"
    if isinstance(predictions, str | Path):
        if labels is not None or ignore_index is not None:
            raise ValueError(f"labels and ignore_index must not be given with the file {predictions}, which has labels")
        file = read_predictions(predictions, kind=kind, **reading)
        return _evaluated_file(file, name=name, class_names=names, **options)
    if reading:
        raise TypeError(f"{', '.join(reading)} can be given with a file of predictions only")
    if kind is not None:
        check_choice("kind", kind, KINDS)
    if labels is None:
        raise ValueError("labels must be given: a loader for a model, or the labels of the scores")
    if isinstance(predictions, nn.Module):
        check_loader("labels", labels)
        named = type(predictions).__name__
        predictions, labels = loader_scores(predictions, labels, logits=logits, title=named if progress else None)
    columns = list(getattr(predictions, "columns", ()))
    if names is None and len(columns) > 1 and any(isinstance(column, str) for column in columns):
        names = tuple(map(str, columns))
    return _evaluated(predictions, labels, kind, names, name=name or named, ignore_index=ignore_index, **options)


def report(
    models: Mapping[str, Any] | ModelEvaluation | list[ModelEvaluation], path: Path | str, *, title: str | None = None
) -> Path:
    """Write one HTML page that compares models, as ``singleshot report`` does, and return its path.

    Args:
        models: name to the result of `evaluate`, to (logits, labels), or to the path of a file of predictions or of a
            run; or one result of `evaluate`, or a list of them, which have names. Each is compared with the first.
        path: the .html file to write.
        title: heading of the page.

    >>> import tempfile
    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]]), torch.tensor([0, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = report({"first": (logits, labels), "sharper": evaluate(2 * logits, labels)}, f"{folder}/page.html")
    """
    path = Path(path)
    if path.suffix.lower() != ".html":
        raise ValueError(f"path must end in .html, got {path}")
    if isinstance(models, ModelEvaluation):
        models = [models]
    if isinstance(models, list) and all(isinstance(one, ModelEvaluation) for one in models):
        names = [one.name for one in models]
        if len(set(names)) < len(names):
            raise ValueError(f"models must have different names, got {', '.join(names)}; pass name= to evaluate")
        models = dict(zip(names, models, strict=True))
    if not isinstance(models, Mapping) or not models:
        raise TypeError('models must be a dict with at least one model: {"name": (logits, labels)}')
    check_writable(path)
    write_page(
        (_model_report(name, source) for name, source in models.items()), path, title=title or page_title([*models])
    )
    return path


def page_title(names: Sequence[str]) -> str:
    """The heading of a page about these models."""
    return "Can these scores be trusted?" if len(names) > 1 else f"{names[0]}: can its scores be trusted?"


def _evaluated_file(
    file: Predictions, *, name: str | None, class_names: tuple[str, ...] | None, **options: Any
) -> ModelEvaluation:
    parts = list(file.batches())
    batch = {key: torch.from_numpy(np.concatenate([part[key] for part in parts])) for key in parts[0]}
    evaluation = partial(evaluate_file, file, **options)
    found = _with_predictions(evaluation, batch, file.known_classes, class_names or file.class_names)
    return found if name is None else replace(found, name=name)


def _evaluated(
    given: Any,
    labels: Any,
    kind: Any,
    class_names: tuple[str, ...] | None,
    *,
    name: str,
    ignore_index: int | None,
    **options: Any,
) -> ModelEvaluation:
    stated, kind = kind is not None, kind or "logits"
    layout: dict[str, Any] = {"ignore_index": ignore_index}
    if not isinstance(labels, Tensor) and np.asarray(labels).dtype.kind in "USO":
        if class_names is None:
            raise ValueError("labels are names of classes; pass class_names= as well, in the order of the scores")
        labels, layout["classes"] = np.asarray(labels).astype(str), class_names
    scores, labels = scores_and_labels(given, labels, kind, **layout)
    shape = np.shape(given)
    is_binary = len(shape) == 1 or shape[1] == 1
    _refuse_probabilities(scores[:, 1:] if is_binary else scores, kind, is_stated=stated)
    classes = scores.shape[1]
    if class_names is not None and len(class_names) != classes:
        raise ValueError(f"class_names must name the {classes} classes of the scores, got {len(class_names)} names")
    batch = {kind: scores, "labels": labels}
    positive = (class_names[1] if class_names else "1") if is_binary else None
    evaluate_all = partial(evaluate_batches, [batch], positive_name=positive, **options)
    found = _with_predictions(evaluate_all, batch, classes, class_names)
    about = f"{amount(len(labels), 'example')}, {amount(classes, 'class', 'classes')}, {kind}"
    return replace(
        found,
        name=name,
        about=about if positive is None else f"{about} of {shown(positive)}",
        source={"name": name, "kind": kind, "classes": classes},
    )


def _with_predictions(
    evaluate_all: Callable[..., Evaluation], batch: dict[str, Tensor], classes: int, class_names: tuple[str, ...] | None
) -> ModelEvaluation:
    evaluation, outcomes, sample = evaluate_with_outcomes(evaluate_all, classes, class_names)
    found = {field.name: getattr(evaluation, field.name) for field in fields(Evaluation)}
    return ModelEvaluation(**found, batch=batch, outcomes=outcomes, sample=sample)


def _rebinned(source: ModelEvaluation) -> ModelEvaluation:
    evaluate_all = partial(evaluate_batches, [source.batch], positive_name=source.positive_name)
    outcomes = source.outcomes
    found = _with_predictions(evaluate_all, source.batch, outcomes.classes, outcomes.class_names)
    kept = {name: getattr(source, name) for name in ("name", "about", "source")}
    return replace(found, **kept)


def _model_report(name: str, source: Any) -> ModelReport:
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return file_report(path, name=name) if is_predictions(path) else run_report(path, name=name)
    if isinstance(source, tuple) and len(source) == 2:
        source = evaluate(*source, name=name)
    if not isinstance(source, ModelEvaluation):
        raise TypeError(
            f"models[{name!r}] must be (logits, labels), the result of evaluate(), or a path, got "
            f"{type(source).__name__}"
        )
    if len(source.result.bins.count) != DEFAULT_BINS:  # all models of a page have the same bins
        source = _rebinned(source)
    outcomes, found = source.outcomes, verdict(source)
    gain = cross_fitted_gain(*source.sample.examples(), bins=DEFAULT_BINS) if found.level in {"fair", "bad"} else None
    path = Path("predictions.npz")
    fix = partial(fix_of_file, path, {})
    step = next_step(found, gain, fix, method="isotonic" if source.sample.is_empty else "temperature")
    if step["commands"]:
        step["needs"] = f'{step["needs"]} Write this file with evaluation.save("{path}").'
    return ModelReport(
        name=name,
        about=describe(source, None),
        command="singleshot.evaluate(predictions, labels)",
        evaluation=source,
        verdict=found,
        next_step=step,
        outcomes=outcomes,
        inspection=examples_to_inspect(outcomes),
        environment=describe_environment(),
    )


def _refuse_probabilities(scores: Tensor, kind: Kind, *, is_stated: bool) -> None:
    """The softmax of probabilities is a mistake that no metric reveals."""
    if kind != "logits" or not len(scores):
        return
    if scores.shape[1] > 1 and bool(probability_rows(scores).all()):
        raise ValueError('the scores are probabilities: every row sums to 1; say kind="probs"')
    if scores.shape[1] == 1 and not is_stated and bool(((scores >= 0) & (scores <= 1)).all()):
        raise ValueError('every score lies in [0, 1]; say kind="probs" if these are probabilities, or kind="logits"')
