"""Bins so fine that a page can make any coarser ones from them, with the counts that `Calibration` would have."""

from __future__ import annotations

from typing import Any

from singleshot.metrics.binning import bin_index, sum_by_bin
from singleshot.metrics.examples import Examples

FINE_BINS = 1200
BIN_CHOICES = (5, 6, 8, 10, 12, 15, 20, 24, 25, 30, 40, 50, 60, 75, 100)
"""Numbers of bins to choose from: divisors of the fine ones, so that each bin is a run of them."""
DEFAULT_BINS = 20


def fine_bins(examples: Examples) -> dict[str, list[Any]]:
    """Per fine bin: examples, right ones among them, and the sum of their confidences.

    The edges of coarser bins are among these to the last bit: k / 20 and 60 k / 1200 are the same quotient, correctly
    rounded, and both are rounded to the dtype of the confidences.
    """
    index = bin_index(examples.confidence, FINE_BINS)
    return {
        "count": sum_by_bin(index, FINE_BINS).tolist(),
        "correct": sum_by_bin(index[examples.correct], FINE_BINS).tolist(),
        "confidence": sum_by_bin(index, FINE_BINS, examples.confidence).tolist(),
    }
