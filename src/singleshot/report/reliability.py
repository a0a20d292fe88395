"""The reliability diagram: accuracy against confidence, the gap between them, and how many examples stand behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from singleshot.metrics.result import CalibrationResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Two colours of the Okabe–Ito palette, told apart by every kind of colour vision, and by hatching in print.
ACCURACY_COLOUR = "#0072B2"
GAP_COLOUR = "#E69F00"
COUNT_COLOUR = "#777777"


def reliability_diagram(result: CalibrationResult, *, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draw accuracy per confidence bin, its gap to the bin's mean confidence, and the share of examples below.

    A bin without examples stays empty: it has neither bar nor gap. The numbers drawn are ``result.bins``.

    Args:
        result: what `Calibration.compute` returned.
        ax: where to draw; a new figure by default.
        title: drawn above the diagram.
    """
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(4, 4.6), layout="constrained")
    bins = result.bins
    filled = bins.count > 0
    left, width = bins.lower[filled].numpy(), (bins.upper - bins.lower)[filled].numpy()
    accuracy, confidence = bins.accuracy[filled].numpy(), bins.confidence[filled].numpy()

    bar = {"align": "edge", "linewidth": 0.5}
    ax.bar(left, accuracy, width, color=ACCURACY_COLOUR, edgecolor="white", label="accuracy", **bar)
    gap = {"facecolor": "none", "edgecolor": GAP_COLOUR, "hatch": "////", **bar}
    ax.bar(left, confidence - accuracy, width, bottom=accuracy, label="gap to confidence", **gap)
    ax.plot([0, 1], [0, 1], color="black", linestyle="--", linewidth=1, label="calibrated")
    ax.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy")
    ax.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0], labels=[])
    ax.set_aspect("equal")
    if title:
        ax.set_title(title, fontsize="medium")
    summary = f"ECE {result.ece:.3f}\naccuracy {result.accuracy:.3f}\nconfidence {result.mean_confidence:.3f}"
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 2}
    ax.text(0.03, 0.97, summary, transform=ax.transAxes, va="top", fontsize="small", bbox=box)
    _draw_shares(ax, result)
    return ax


def _draw_shares(ax: Axes, result: CalibrationResult) -> None:
    """A strip under the diagram with the share of examples in each bin."""
    bins = result.bins
    strip = ax.inset_axes((0, -0.25, 1, 0.21))
    strip.bar(bins.lower.numpy(), bins.share.numpy(), 1 / len(bins.count), align="edge", color=COUNT_COLOUR, linewidth=0)
    strip.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence")
    strip.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    strip.set_yticks([0, 1])
    strip.set_ylabel("share", fontsize="small")
    strip.text(0.03, 0.9, f"{result.count:,} examples", transform=strip.transAxes, va="top", fontsize="x-small")
