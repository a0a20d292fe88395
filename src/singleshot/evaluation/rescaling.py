"""Fitting a calibration on one file of predictions and applying it to another."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from singleshot.common.checks import check_choice
from singleshot.metrics.calibration import Calibration, CalibrationResult
from singleshot.posthoc.registry import SCALINGS
from singleshot.posthoc.scaling import Scaling
from singleshot.predictions.predictions import Chunk, Predictions
from singleshot.predictions.source import listed
from singleshot.predictions.writing import write_predictions

WITHOUT_CLASSES = "temperature"
"""The one method that learns nothing about single classes; the others say themselves what a missing one means."""


def fit_scaling(predictions: Predictions, method: str) -> Scaling:
    """The calibration of a method, learned from these predictions; they are held in memory for it."""
    check_choice("method", method, tuple(SCALINGS))
    chunk = predictions.load()
    if method == WITHOUT_CLASSES:
        _warn_of_missing_classes(predictions, chunk)
    try:
        return SCALINGS[method].fit(torch.from_numpy(predictions.logits(chunk)), torch.from_numpy(chunk.labels))
    except ValueError as error:
        raise ValueError(f"{predictions.path}: {error}") from None


def rescale(
    predictions: Predictions, scaling: Scaling, *, output: Path | None = None, bins: int = 20
) -> tuple[CalibrationResult, CalibrationResult]:
    """Apply a calibration to predictions, a chunk at a time; their calibration before and after.

    With ``output``, the new logits, the labels and the class names are written to that .npz file.
    """
    before, after = Calibration(bins=bins), Calibration(bins=bins)

    def rescaled() -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        for chunk in predictions.chunks():
            before.update(**{predictions.kind: chunk.scores}, labels=chunk.labels)
            logits = apply_scaling(scaling, predictions, chunk)
            after.update(logits=logits, labels=chunk.labels)
            yield logits, chunk.labels

    if output is None:
        for _ in rescaled():
            pass
    else:
        write_predictions(output, rescaled(), class_names=predictions.class_names)
    return before.compute(), after.compute()


def apply_scaling(scaling: Scaling, predictions: Predictions, chunk: Chunk) -> NDArray[Any]:
    """The logits of a chunk after the calibration, in at least single precision."""
    logits = predictions.logits(chunk)
    wide = logits if logits.dtype == np.float64 else logits.astype(np.float32, copy=False)
    try:
        scaled: NDArray[Any] = scaling(torch.tensor(wide)).numpy()
    except ValueError as error:
        raise ValueError(f"{predictions.path}: {error}") from None
    return scaled


def check_same_classes(fitted: Predictions, other: Predictions) -> None:
    """Refuse two files that are about different classes."""
    if fitted.classes != other.classes:
        raise ValueError(f"{fitted.path} has {fitted.classes} classes and {other.path} has {other.classes}")
    names, others = fitted.class_names, other.class_names
    if names is not None and others is not None and names != others:
        place = next(place for place, pair in enumerate(zip(names, others, strict=True)) if pair[0] != pair[1])
        raise ValueError(
            f"{fitted.path} and {other.path} have different classes, or another order of them: class {place} is "
            f"{names[place]!r} in the one and {others[place]!r} in the other"
        )


def _warn_of_missing_classes(predictions: Predictions, chunk: Chunk) -> None:
    missing = np.flatnonzero(np.bincount(chunk.labels, minlength=predictions.classes) == 0)
    if len(missing):
        names = predictions.class_names or tuple(map(str, range(predictions.classes)))
        warnings.warn(
            f"{predictions.path} has no example of {len(missing)} of {predictions.classes} classes "
            f"({listed([names[index] for index in missing], 5)}): a temperature can be fitted without them, but how "
            "far it suits them is not known.",
            stacklevel=3,
        )
