"""Fit a post-hoc calibration on one file of predictions and apply it to another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from singleshot.evaluation.evaluation import scored_batch
from singleshot.evaluation.label_check import LabelCheck
from singleshot.metrics.calibration import Calibration, CalibrationResult
from singleshot.metrics.examples import ScoredBatch
from singleshot.posthoc import SCALINGS, Scaling
from singleshot.posthoc.nonparametric import FrequencyScaling
from singleshot.predictions import Predictions, write_predictions, write_top_class


def fit_scaling(predictions: Predictions, method: str, labels_fit: LabelCheck | None = None) -> Scaling:
    """Fit a calibration method on a file, which is loaded into memory; its examples are added to ``labels_fit``."""
    chunk = predictions.load()
    if labels_fit is not None:
        labels_fit.add(scored_batch(predictions.batch(chunk), checked=True))
    if predictions.kind == "confidence":
        scaling = SCALINGS[method]
        if not issubclass(scaling, FrequencyScaling):
            raise ValueError(
                f"{predictions.path} has only the predicted class and its confidence, and {method} scaling needs the "
                "scores of every class; use --method histogram or --method isotonic"
            )
        return scaling.fit_confidence(*map(torch.from_numpy, (chunk.scores[:, 0], chunk.predicted == chunk.labels)))
    try:
        return SCALINGS[method].fit(torch.from_numpy(predictions.logits(chunk)), torch.from_numpy(chunk.labels))
    except ValueError as error:
        raise ValueError(f"{predictions.path}: {error}") from None


def rescale(
    predictions: Predictions,
    scaling: Scaling,
    *,
    output: Path | None = None,
    bins: int = 20,
    labels_fit: LabelCheck | None = None,
) -> tuple[CalibrationResult, CalibrationResult]:
    """Apply a calibration to a file chunk by chunk; return the metrics before and after.

    With ``output``, the new logits in float64, the labels and the class names are written to that .npz or .csv file.
    The examples are added to ``labels_fit``.
    """
    labels_fit = labels_fit or LabelCheck()
    if predictions.kind == "confidence":
        return _rescale_top_class(predictions, scaling, output, bins, labels_fit)
    before, after = Calibration(bins=bins), Calibration(bins=bins)

    def rescaled() -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        for chunk in predictions.chunks():
            batch = scored_batch(predictions.batch(chunk), checked=True)
            before.add(batch)
            labels_fit.add(batch)
            given = torch.tensor(predictions.logits(chunk), dtype=torch.float64)  # float32 would tie confidences
            try:
                logits = scaling(given).numpy()
            except ValueError as error:
                raise ValueError(f"{predictions.path}: {error}") from None
            after.update(logits=logits, labels=chunk.labels)
            yield logits, chunk.labels

    if output is None:
        for _ in rescaled():
            pass
    else:
        write_predictions(output, rescaled(), class_names=predictions.class_names)
    return before.compute(), after.compute()


def _rescale_top_class(
    predictions: Predictions, scaling: Scaling, output: Path | None, bins: int, labels_fit: LabelCheck
) -> tuple[CalibrationResult, CalibrationResult]:
    """Calibrate the confidences of predicted classes, all in memory."""
    if not isinstance(scaling, FrequencyScaling):
        raise ValueError(f"{predictions.path} has only confidences; {scaling.method} needs the scores of every class")
    chunk = predictions.load()
    try:
        confidence = scaling.of_confidence(torch.from_numpy(chunk.scores[:, 0]))
    except ValueError as error:
        raise ValueError(f"{predictions.path}: {error}") from None
    results = []
    given = predictions.batch(chunk)
    labels_fit.add(scored_batch(given, checked=True))
    for values in (given["confidence"], confidence):
        calibration = Calibration(bins=bins)
        calibration.add(ScoredBatch.of_top_class(**{**given, "confidence": values}))
        results.append(calibration.compute())
    if output is not None:
        assert chunk.predicted is not None
        names = predictions.class_names
        write_top_class(output, confidence.numpy(), chunk.predicted, chunk.labels, class_names=names)
    return results[0], results[1]


def check_same_classes(fitted: Predictions, other: Predictions) -> None:
    """Check that two files have the same classes in the same order; a confidence has no class."""
    if fitted.kind == "confidence" or other.kind == "confidence":
        if fitted.kind != other.kind:
            raise ValueError(f"{fitted.path} has {fitted.kind}, {other.path} has {other.kind}; fit on the same kind")
        return
    if fitted.classes != other.classes:
        raise ValueError(f"{fitted.path} has {fitted.classes} classes, {other.path} has {other.classes}")
    names, others = fitted.class_names, other.class_names
    if names is not None and others is not None and names != others:
        index = next(index for index, pair in enumerate(zip(names, others, strict=True)) if pair[0] != pair[1])
        raise ValueError(
            f"{fitted.path} and {other.path} have different classes or a different class order: class {index} is "
            f"{names[index]!r} and {others[index]!r}"
        )
