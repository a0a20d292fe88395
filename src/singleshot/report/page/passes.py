"""How accuracy and score fall as T stochastic passes disagree more, for a page."""

from __future__ import annotations

from typing import Any

from singleshot.metrics.variance_histogram import VarianceBins, VarianceHistogram
from singleshot.predictions import Predictions


def passes_of_file(predictions: Predictions) -> dict[str, Any] | None:
    """What the passes in a file say, from every example, a block at a time; None where it holds none."""
    if not predictions.passes:
        return None
    histogram = VarianceHistogram()
    for batch in predictions.pass_batches():
        histogram.update(**batch)
    return passes_data(histogram.compute(), predictions.passes)


def passes_data(bins: VarianceBins, samples: int) -> dict[str, Any]:
    """A variance histogram as plain lists."""
    fields = ("lower", "upper", "count", "accuracy", "score", "coverage")
    return {"samples": samples, **{name: getattr(bins, name).tolist() for name in fields}}
