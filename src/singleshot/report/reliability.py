"""The reliability diagram: accuracy against confidence, the gap between them, and how many examples stand behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from singleshot.metrics.result import CalibrationResult
from singleshot.metrics.wilson import wilson_interval
from singleshot.report.palette import BLUE, FRACTION_TICKS, GREY, ORANGE, finish, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STRIP_HEIGHT = 0.25


def reliability_diagram(
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
