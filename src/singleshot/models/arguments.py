"""What the networks share about their arguments: the checks, and the width multiplier."""

from __future__ import annotations

import math

from singleshot.checks import check_size


def check_arguments(*, width: float, dropout: float = 0.0, survival: float = 1.0, **counts: int) -> None:
    """Refuses a width that is not positive, a rate out of range and any of the named counts below 1."""
    check_counts(**counts)
    check_survival(survival=survival)
    if not (width > 0 and math.isfinite(width)):
        raise ValueError(f"width must be a positive multiplier of the channels, such as 0.25, got {width!r}")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must lie in [0, 1), the share of units dropped, got {dropout!r}; 0 drops none")


def check_counts(**counts: int) -> None:
    """Refuses a named count that is not a whole number of at least 1."""
    for name, count in counts.items():
        check_size(name, count, least=1)


def check_survival(**probabilities: float) -> None:
    """Refuses a named survival probability outside (0, 1]."""
    for name, survival in probabilities.items():
        if not 0 < survival <= 1:
            raise ValueError(f"{name} must lie in (0, 1], the chance to be kept, got {survival!r}; 1 drops nothing")


def scaled(channels: int, width: float) -> int:
    """So many channels at this width, at least one.

    >>> scaled(64, 0.5), scaled(12, 0.01)
    (32, 1)
    """
    return max(1, round(channels * width))
