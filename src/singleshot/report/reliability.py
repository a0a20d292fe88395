"""The reliability diagram: accuracy against confidence, the gap between them, and how many examples stand behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from singleshot.metrics.result import CalibrationResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Two colours of the Okabe–Ito palette, told apart by every kind of colour vision, and by hatching in print.
ACCURACY_COLOUR = "#0072B2"
GAP_COLOUR = "#E69F00"
COUNT_COLOUR = "#555555"

STRIP_HEIGHT = 0.25
TICKS = (0, 0.2, 0.4, 0.6, 0.8, 1.0)


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

    ax.bar(left, accuracy, width, align="edge", color=ACCURACY_COLOUR, edgecolor="white", lw=0.5, label="accuracy")
    outline: dict[str, Any] = {"facecolor": "none", "edgecolor": GAP_COLOUR, "hatch": "////", "lw": 0.5}
    ax.bar(left, confidence - accuracy, width, accuracy, align="edge", label="gap to confidence", **outline)
    ax.plot([0, 1], [0, 1], color="black", linestyle="--", linewidth=1, label="calibrated")
    _draw_shares(ax, result)
    ax.set(xlim=(0, 1), ylim=(-STRIP_HEIGHT, 1), xlabel="confidence", ylabel="accuracy", aspect="equal")
    ax.set_xticks(TICKS)
    ax.set_yticks(TICKS)
    if title:
        ax.set_title(title, fontsize="medium")
    summary = f"ECE {result.ece:.3f}\naccuracy {result.accuracy:.3f}\nconfidence {result.mean_confidence:.3f}"
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 2}
    ax.text(0.03, 0.97, summary, transform=ax.transAxes, va="top", fontsize="small", bbox=box)
    return ax


def _draw_shares(ax: Axes, result: CalibrationResult) -> None:
    """The share of examples per bin, in a strip below accuracy 0 so that the diagram stays a single pair of axes."""
    bins = result.bins
    heights = (bins.share * (STRIP_HEIGHT - 0.04)).numpy()
    ax.bar(bins.lower.numpy(), heights, 1 / len(heights), -STRIP_HEIGHT, align="edge", color=COUNT_COLOUR, linewidth=0)
    ax.axhline(0, color="black", linewidth=0.8)
    ax.text(0.03, -0.03, f"share of {result.count:,} examples", va="top", fontsize="small", color=COUNT_COLOUR)
