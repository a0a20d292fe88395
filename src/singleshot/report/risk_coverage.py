"""The risk–coverage curve: the share of errors among the predictions that are kept, the surest ones first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from singleshot.metrics.selective import RiskCoverage
from singleshot.report.palette import FRACTION_TICKS, check_curves, finish, line_styles, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = 10  # on each curve: enough to tell curves apart, few enough to see them


def risk_coverage_curve(
    curves: Mapping[str, RiskCoverage], *, ax: Axes | None = None, title: str | None = None
) -> Axes:
    """Draw the error rate of the predictions that are kept against the share that is kept.

    A curve that stays low and rises late has errors where the confidence is low, as it should be. The numbers drawn are
    ``curve.coverage`` and ``curve.risk``.

    Args:
        curves: what `risk_coverage` returned, by the name to put in the legend.
        ax: where to draw; a new figure by default.
        title: drawn above the curves.
    """
    check_curves("curves", curves)
    ax = new_axes() if ax is None else ax
    highest = 0.0
    for (name, curve), style in zip(curves.items(), line_styles(len(curves)), strict=True):
        coverage, risk = np.asarray(curve.coverage, np.float64), np.asarray(curve.risk, np.float64)
        if coverage.ndim != 1 or coverage.shape != risk.shape or not len(coverage):
            raise ValueError(
                f"curves[{name!r}] must have coverage and risk of one length, got {coverage.shape} and {risk.shape}"
            )
        ax.plot(coverage, risk, label=name, markevery=max(1, len(coverage) // MARKERS), **style)
        highest = max(highest, float(risk[coverage >= 0.05].max(initial=0.0)))
    # The first few examples alone may be all wrong; such a risk of 1 would press everything else to the floor.
    ax.set(xlim=(0, 1), ylim=(0, min(1.02, 1.1 * highest + 0.01)), xlabel="coverage", ylabel="risk (share of errors)")
    ax.set_xticks(FRACTION_TICKS)
    ax.grid(alpha=0.3, linewidth=0.5)
    finish(ax, legend=len(curves) > 1, title=title)
    return ax
