"""The coverage curve: how many predictions one may act on, for each confidence one may ask for (Fig. 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from singleshot.metrics.result import CalibrationResult
from singleshot.report.palette import FRACTION_TICKS, check_curves, finish, line_styles, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def coverage_curve(
    results: Mapping[str, CalibrationResult], *, ax: Axes | None = None, title: str | None = None
) -> Axes:
    """Draw the share of examples whose confidence is above a threshold, in bins whose accuracy is above it as well.

    The numbers drawn are ``result.bins.coverage()`` at the thresholds ``result.bins.lower``.

    Args:
        results: what `Calibration.compute` returned, by the name to put in the legend.
        ax: where to draw; a new figure by default.
        title: drawn above the curves.
    """
    check_curves("results", results)
    ax = new_axes() if ax is None else ax
    for (name, result), style in zip(results.items(), line_styles(len(results)), strict=True):
        ax.plot(result.bins.lower.numpy(), result.bins.coverage().numpy(), label=name, **style)
    ax.set(xlim=(0, 1), ylim=(0, 1.03), xlabel="threshold of confidence and bin accuracy", ylabel="coverage")
    ax.set_xticks(FRACTION_TICKS)
    ax.set_yticks(FRACTION_TICKS)
    ax.grid(alpha=0.3, linewidth=0.5)
    finish(ax, legend=len(results) > 1, title=title)
    return ax
