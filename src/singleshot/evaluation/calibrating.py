"""Fit a post-hoc calibration on one file of predictions and apply it to another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from singleshot.metrics.calibration import Calibration, CalibrationResult
from singleshot.metrics.examples import ScoredBatch
from singleshot.posthoc import SCALINGS, Scaling
from singleshot.predictions import Predictions, write_predictions


def fit_scaling(predictions: Predictions, method: str) -> Scaling:
    """Fit a calibration method on a file, which is loaded into memory."""
    chunk = predictions.load()
    try:
        return SCALINGS[method].fit(torch.from_numpy(predictions.logits(chunk)), torch.from_numpy(chunk.labels))
    except ValueError as error:
        raise ValueError(f"{predictions.path}: {error}") from None


def rescale(
    predictions: Predictions, scaling: Scaling, *, output: Path | None = None, bins: int = 20
) -> tuple[CalibrationResult, CalibrationResult]:
    """Apply a calibration to a file chunk by chunk; return the metrics before and after.

    With ``output``, the new logits in float64, the labels and the class names are written to that .npz file.
    """
    before, after = Calibration(bins=bins), Calibration(bins=bins)

    def rescaled() -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        for chunk in predictions.chunks():
            scores: dict[str, Any] = {predictions.kind: chunk.scores}
            before.add(ScoredBatch.of(**scores, labels=chunk.labels, checked=True))
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


def check_same_classes(fitted: Predictions, other: Predictions) -> None:
    """Check that two files have the same classes in the same order."""
    if fitted.classes != other.classes:
        raise ValueError(f"{fitted.path} has {fitted.classes} classes, {other.path} has {other.classes}")
    names, others = fitted.class_names, other.class_names
    if names is not None and others is not None and names != others:
        index = next(index for index, pair in enumerate(zip(names, others, strict=True)) if pair[0] != pair[1])
        raise ValueError(
            f"{fitted.path} and {other.path} have different classes or a different class order: class {index} is "
            f"{names[index]!r} and {others[index]!r}"
        )
