"""Wilson's interval of a proportion."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def wilson_interval(
    successes: ArrayLike, counts: ArrayLike, level: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper bounds of the proportions behind ``successes`` out of ``counts``, elementwise.

    The proportions p with (p̂ − p)² ≤ z² p (1 − p) / n: never empty, never outside [0, 1], and honest where all or none
    succeed, which ± standard errors are not. Nothing out of nothing says nothing: NaN.

    >>> low, high = wilson_interval([0, 5, 10], [10, 10, 10])
    >>> low.round(3), high.round(3)
    (array([0.   , 0.237, 0.722]), array([0.278, 0.763, 1.   ]))
    """
    from scipy.special import ndtri

    check_level(level)
    k, n = (_as_numbers(name, values) for name, values in (("successes", successes), ("counts", counts)))
    try:
        k, n = np.broadcast_arrays(k, n)
    except ValueError:
        raise ValueError(f"successes and counts must have one shape, got {k.shape} and {n.shape}") from None
    if not ((k >= 0) & (k <= n)).all():
        bad = int(np.argmin(((k >= 0) & (k <= n)).ravel()))
        raise ValueError(f"successes must lie between 0 and counts: got {k.flat[bad]:g} of {n.flat[bad]:g} at {bad}")
    z2 = float(ndtri((1 + level) / 2)) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        share = k / n
        middle = (k + z2 / 2) / (n + z2)
        half = np.sqrt(z2) / (n + z2) * np.sqrt(k * (1 - share) + z2 / 4)
    # all and none are exactly 1 and 0 away, which rounding would miss by a hair
    low = np.where(k == 0, 0.0, np.clip(middle - half, 0, 1))
    high = np.where(k == n, 1.0, np.clip(middle + half, 0, 1))
    return np.where(n == 0, np.nan, low), np.where(n == 0, np.nan, high)


def check_level(level: float, name: str = "level") -> None:
    """Refuse a confidence level that is not strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, such as 0.95, got {level}")


def _as_numbers(name: str, values: Any) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from None
