"""Bins that hold as many examples each: equal mass in place of equal width."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def equal_mass_index(confidence: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """The equal-mass bin of each confidence, from 0 for the lowest; the confidences need no order.

    A value's bin is ⌊bins · r⌋ with r the middle of the share of examples it spans when all are ranked. Equal
    confidences therefore share a bin, whatever order they came in. Where many are equal, or there are fewer examples
    than bins, some bins hold more examples than others and some none.

    >>> equal_mass_index(np.array([0.9, 0.5, 0.6, 0.7]), bins=2)
    array([1, 0, 0, 1])
    >>> equal_mass_index(np.array([0.9, 0.9, 0.9, 0.7]), bins=2)
    array([1, 1, 1, 0])
    """
    _, group, count = np.unique(confidence, return_inverse=True, return_counts=True)
    twice_middle = 2 * np.cumsum(count) - count  # whole numbers, so that no rounding moves an edge
    return np.asarray((bins * twice_middle // (2 * len(confidence)))[group], dtype=np.int64)
