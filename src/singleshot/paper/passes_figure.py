"""ECE against the number of stochastic passes in training, with its error over seeds (Fig. 4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from singleshot.common.checks import check_size
from singleshot.report.style import check_curves, finish, line_styles, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class PassesPoint:
    """Mean and standard error over seeds at one number of passes; one seed has no standard error."""

    passes: int
    mean: float
    standard_error: float | None
    seeds: int


def ece_by_passes(eces: Mapping[int, Sequence[float]]) -> list[PassesPoint]:
    """The points of one curve, from the ECE of each seed by the number of passes.

    The standard error is the sample's standard deviation over √seeds.

    >>> ece_by_passes({5: [0.1, 0.2], 2: [0.3]})[0]
    PassesPoint(passes=2, mean=0.3, standard_error=None, seeds=1)
    """
    points = []
    for passes, values in sorted(check_curves("eces", eces).items()):  # type: ignore[arg-type]
        check_size("passes", passes, least=1)
        found = np.asarray(values, np.float64)
        if found.ndim != 1 or not len(found) or not np.isfinite(found).all():
            raise ValueError(f"the ECEs of {passes} passes must be finite numbers, one per seed, got {values!r}")
        error = float(found.std(ddof=1)) / math.sqrt(len(found)) if len(found) > 1 else None
        points.append(PassesPoint(int(passes), float(found.mean()), error, len(found)))
    return points


def plot_ece_against_passes(
    methods: Mapping[str, Mapping[int, Sequence[float]]], *, ax: Axes | None = None, title: str | None = None
) -> Axes:
    """Draw the mean ECE over seeds against the number of passes T, with its standard error, for each method.

    The numbers drawn are those of `ece_by_passes`; the legend says over how many seeds.

    Args:
        methods: by the name to put in the legend, the ECE of each seed by the number of passes.
        ax: where to draw; a new figure by default.
        title: drawn above the curves.
    """
    check_curves("methods", methods)
    ax = new_axes() if ax is None else ax
    ticks: set[int] = set()
    highest = 0.0
    for (name, eces), style in zip(methods.items(), line_styles(len(methods)), strict=True):
        points = ece_by_passes(eces)
        means = [point.mean for point in points]
        errors = [point.standard_error or 0.0 for point in points]
        passes = [point.passes for point in points]
        ax.errorbar(passes, means, errors, label=f"{name} ({_seeds(points)})", capsize=2, elinewidth=0.8, **style)
        ticks.update(passes)
        highest = max(highest, *(mean + error for mean, error in zip(means, errors, strict=True)))
    ax.set(xlabel="stochastic passes $T$", ylabel="ECE")
    headroom = 1.1 + 0.11 * len(methods)  # a line of the legend each, so that it hides nothing
    ax.set_ylim(0, headroom * highest or 1.0)
    ax.set_xticks(sorted(ticks))
    ax.grid(axis="y", alpha=0.3, linewidth=0.5)
    finish(ax, legend=True, title=title, loc="upper right")
    return ax


def _seeds(points: list[PassesPoint]) -> str:
    """How many seeds, from the least to the most where the points differ."""
    least, most = min(point.seeds for point in points), max(point.seeds for point in points)
    count = f"{least}" if least == most else f"{least} to {most}"
    return f"{count} seed{'s' if most > 1 else ''}"
