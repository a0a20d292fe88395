"""A number measured with several seeds: its mean, and how far chance may have moved it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its standard error; one seed has no standard error."""

    mean: float
    standard_error: float | None
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Mean and standard error, the sample's standard deviation over √n.

        >>> print(Estimate.of([0.1, 0.2, 0.3]))
        0.200 ± 0.058
        """
        deviation = sample_deviation(values)
        error = None if deviation is None else deviation / math.sqrt(len(values))
        return cls(fmean(values), error, len(values))

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """Student's interval around the mean, which holds for few seeds, too; one seed has none.

        >>> low, high = Estimate.of([0.1, 0.2, 0.3]).interval()
        >>> round(low, 3), round(high, 3)
        (-0.048, 0.448)
        """
        if self.standard_error is None:
            return None
        from scipy.special import stdtrit

        reach = float(stdtrit(self.seeds - 1, (1 + level) / 2)) * self.standard_error
        return self.mean - reach, self.mean + reach

    def __str__(self) -> str:
        return f"{self.mean:.3f}" if self.standard_error is None else f"{self.mean:.3f} ± {self.standard_error:.3f}"


def sample_deviation(values: Sequence[float]) -> float | None:
    """The sample's standard deviation; one value has none, nor have values of which one is infinite."""
    return stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None


def seeds_text(found: int, wanted: int) -> str:
    """How many seeds are behind a number, and how many should be if that is not the same.

    >>> seeds_text(3, 3), seeds_text(2, 3)
    ('3', '2 of 3')
    """
    return str(found) if found == wanted else f"{found} of {wanted}"
