"""Accuracy by the disagreement of stochastic passes, from a file or by sampling the model of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from singleshot.evaluation.loaded_run import LoadedRun
from singleshot.metrics.variance_histogram import VarianceHistogram
from singleshot.predictions import Predictions
from singleshot.sampling import sample
from singleshot.sampling.noise import noise_layers
from singleshot.training.inference import BATCH, image_batches

FINE_BINS = 200
"""The page merges these bins over the range in use: most variances of a good model are close to 0."""
SAMPLES = 5
MAX_SAMPLED = 10_000
"""Images of a run that are sampled: enough for a histogram, and a matter of seconds."""


def file_passes(predictions: Predictions) -> dict[str, Any] | None:
    """Return the variance histogram of the passes in a file; None if it has none."""
    return _histogram(predictions.pass_batches(), predictions.passes) if predictions.passes else None


def run_passes(loaded: LoadedRun) -> dict[str, Any] | None:
    """Return the variance histogram of sampled passes; None for a model without noise layers."""
    if not noise_layers(loaded.model):
        return None
    # Every n-th image, because the images may be sorted by class.
    chosen = loaded.positions[:: -(-len(loaded.positions) // MAX_SAMPLED)]
    with torch.no_grad():
        return _histogram(_sampled(loaded, chosen), SAMPLES, total=len(loaded.positions))


def _sampled(loaded: LoadedRun, positions: Tensor) -> Iterator[dict[str, Tensor]]:
    for number, (images, labels) in enumerate(image_batches(loaded.images, positions, loaded.normalization)):
        logits = sample(loaded.model, images, samples=SAMPLES, seed=number * BATCH)
        yield {"logits": logits.float().cpu(), "labels": labels.cpu()}


def _histogram(batches: Iterable[dict[str, Any]], samples: int, *, total: int | None = None) -> dict[str, Any]:
    histogram = VarianceHistogram(FINE_BINS)
    for batch in batches:
        histogram.update(**batch)
    bins = histogram.compute()
    examples = int(bins.count.sum())
    fields = ("lower", "upper", "count", "accuracy", "score", "coverage")
    values = {name: getattr(bins, name).tolist() for name in fields}
    return {"samples": samples, "examples": examples, "of": examples if total is None else total, **values}
