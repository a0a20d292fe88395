"""The variance–accuracy histogram: how accuracy and score fall as the stochastic passes disagree more (Fig. 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from singleshot.metrics.variance_histogram import VarianceBins
from singleshot.report.palette import BLUE, FRACTION_TICKS, VERMILLION, finish, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def variance_histogram(histogram: VarianceBins, *, ax: Axes | None = None, title: str | None = None) -> Axes:
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
