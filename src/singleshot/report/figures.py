"""The reliability diagram: accuracy against confidence, the gap between them, and how many examples stand behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from singleshot.metrics.calibration import CalibrationResult
from singleshot.metrics.intervals import wilson_interval
from singleshot.metrics.selective import RiskCoverage
from singleshot.metrics.variance_histogram import VarianceBins
from singleshot.report.style import (
    BLUE,
    FRACTION_TICKS,
    GREY,
    ORANGE,
    VERMILLION,
    check_curves,
    finish,
    line_styles,
    new_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


STRIP_HEIGHT = 0.25


def plot_reliability(
    result: CalibrationResult, *, ax: Axes | None = None, title: str | None = None, level: float | None = 0.95
) -> Axes:
    """Draw accuracy per confidence bin, its gap to the bin's mean confidence, and the count of examples below.

    A bin without examples stays empty: it has neither bar nor gap nor interval. The numbers drawn are ``result.bins``,
    and Wilson's intervals of ``bins.accuracy``.

    Args:
        result: what `Calibration.compute` returned.
        ax: where to draw, without a legend, as several diagrams want one together; by default a new figure with one.
        title: drawn above the diagram.
        level: of the interval around each accuracy, the values that chance leaves open; None draws none.
    """
    alone = ax is None
    ax = new_axes((3.3, 4.2)) if ax is None else ax
    bins = result.bins
    filled = bins.count > 0
    left, width = bins.lower[filled].numpy(), (bins.upper - bins.lower)[filled].numpy()
    accuracy, confidence = bins.accuracy[filled].numpy(), bins.confidence[filled].numpy()

    ax.bar(left, accuracy, width, align="edge", color=BLUE, edgecolor="white", lw=0.5, label="accuracy")
    outline: dict[str, Any] = {"facecolor": "none", "edgecolor": ORANGE, "hatch": "////", "lw": 0.5}
    ax.bar(left, confidence - accuracy, width, accuracy, align="edge", label="gap to confidence", **outline)
    ax.plot([0, 1], [0, 1], color="black", linestyle="--", linewidth=1, label="calibrated")
    if level is not None:
        count = bins.count[filled].numpy()
        low, high = wilson_interval((accuracy * count).round(), count, level)
        # a bar is at most as long as rounding allows below 0, which matplotlib refuses
        reach = [(accuracy - low).clip(0), (high - accuracy).clip(0)]
        look: dict[str, Any] = {"fmt": "none", "ecolor": "black", "elinewidth": 0.8, "capsize": 1.5}
        ax.errorbar(left + width / 2, accuracy, reach, label=f"{100 * level:g} % interval" if alone else None, **look)
    _draw_counts(ax, result)
    ax.set(xlim=(0, 1), ylim=(-STRIP_HEIGHT, 1), xlabel="confidence", ylabel="accuracy", aspect="equal")
    ax.set_xticks(FRACTION_TICKS)
    ax.set_yticks(FRACTION_TICKS)
    summary = f"ECE {result.ece:.3f}\naccuracy {result.accuracy:.3f}\nconfidence {result.mean_confidence:.3f}"
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 2}
    ax.text(0.03, 0.97, summary, transform=ax.transAxes, va="top", fontsize="small", bbox=box)
    finish(ax, legend=False, title=title)
    if alone:
        ax.figure.legend(loc="outside lower center", ncols=2, fontsize="small", edgecolor="none")  # below the axes
    return ax


def _draw_counts(ax: Axes, result: CalibrationResult) -> None:
    """The examples per bin, in a strip below accuracy 0 so that the diagram stays a single pair of axes."""
    bins = result.bins
    most = int(bins.count.max())
    heights = (bins.count / most * (STRIP_HEIGHT - 0.1)).numpy()
    widths = (bins.upper - bins.lower).numpy()
    ax.bar(bins.lower.numpy(), heights, widths, -STRIP_HEIGHT, align="edge", color=GREY, linewidth=0)
    ax.axhline(0, color="black", linewidth=0.8)
    label = f"{result.count:,} examples, at most {most:,} in a bin"
    ax.text(0.02, -0.02, label, va="top", fontsize="x-small", color=GREY)


def plot_coverage(
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


MARKERS = 10  # on each curve: enough to tell curves apart, few enough to see them


def plot_risk_coverage(curves: Mapping[str, RiskCoverage], *, ax: Axes | None = None, title: str | None = None) -> Axes:
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


def plot_variance(histogram: VarianceBins, *, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draw, per bin of the normalized variance, accuracy and mean score, and the cumulative share of the examples.

    The axis ends with the last bin that has examples, for disagreement is rarely large; bins before it without examples
    stay empty. The numbers drawn are those of ``histogram``.

    Args:
        histogram: what `VarianceHistogram.compute` returned.
        ax: where to draw; a new figure by default.
        title: drawn above the histogram.
    """
    ax = new_axes() if ax is None else ax
    filled = histogram.count > 0
    left, right = histogram.lower[filled].numpy(), histogram.upper[filled].numpy()
    ax.bar(left, histogram.accuracy[filled].numpy(), right - left, align="edge", color=BLUE, edgecolor="white", lw=0.5,
           label="accuracy")  # fmt: skip
    # White around the marker keeps it apart from the bar it stands in, without colours too.
    edge: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.7, "markersize": 6}
    scores = histogram.score[filled].numpy()
    ax.plot((left + right) / 2, scores, "D", color=VERMILLION, label="mean score", **edge)
    last = float(right.max())
    shown = histogram.lower < last
    edges = [0.0, *histogram.upper[shown].tolist()]
    shares = [0.0, *histogram.coverage[shown].tolist()]
    ax.plot(edges, shares, color="black", linestyle="--", linewidth=1, label="cumulative share")
    examples = f"normalized variance ({int(histogram.count.sum()):,} examples)"
    # The room above 1 is for the legend, which would hide a curve anywhere else.
    ax.set(xlim=(0, last), ylim=(0, 1.35), xlabel=examples, ylabel="accuracy, score, share")
    ax.set_yticks(FRACTION_TICKS)
    order = [2, 0, 1]  # the bars first, which matplotlib puts last
    handles, labels = ax.get_legend_handles_labels()
    listed = {"handles": [handles[index] for index in order], "labels": [labels[index] for index in order]}
    finish(ax, legend=True, title=title, loc="upper center", ncols=2, handlelength=1.8, columnspacing=1.0, **listed)
    return ax
