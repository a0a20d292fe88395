"""How accuracy and score fall as T stochastic passes disagree more, for a page."""

from __future__ import annotations

from typing import Any

from singleshot.metrics.variance_histogram import VarianceBins, VarianceHistogram
from singleshot.predictions import Predictions

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
