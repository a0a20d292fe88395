"""Matplotlib figures of calibration results, and the style that all figures share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from singleshot.common.files import write_atomically
from singleshot.evaluation.formatting import amount
from singleshot.metrics.calibration import CalibrationResult
from singleshot.metrics.intervals import wilson_interval
from singleshot.metrics.selective import RiskCoverage
from singleshot.metrics.variance_histogram import VarianceBins

if TYPE_CHECKING:
    from matplotlib.axes import Axes

T = TypeVar("T")

# The palette of Okabe and Ito without yellow, which is too light for a line on white.
BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000",
)  # fmt: skip
GREY = "#555555"

_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, BLACK, ORANGE, SKY)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))

FRACTION_TICKS = (0, 0.2, 0.4, 0.6, 0.8, 1.0)
STRIP_HEIGHT = 0.25  # of the example counts below the reliability diagram, in units of accuracy


def plot_reliability(
    result: CalibrationResult, *, ax: Axes | None = None, title: str | None = None, level: float | None = 0.95
) -> Axes:
    """Plot accuracy per confidence bin, its gap to the mean confidence, and the number of examples per bin.

    The plotted numbers are ``result.bins``; empty bins are left blank. Each accuracy has a Wilson interval at the
    confidence ``level``, or none if it is None. By default, the diagram is a new figure with a legend; on given axes it
    has no legend.

    >>> from singleshot import Calibration
    >>> calibration = Calibration(bins=10)
    >>> calibration.update(probs=[[0.9, 0.1], [0.3, 0.7]], labels=[0, 0])
    >>> ax = plot_reliability(calibration.compute())  # ax.figure.savefig("reliability.png")
    >>> ax.get_xlabel()
    'confidence'
    """
    check_type("result", result, CalibrationResult)
    is_new = ax is None
    ax = new_axes((3.3, 4.2)) if ax is None else ax
    bins = result.bins
    filled = bins.count > 0
    left, width = bins.lower[filled].numpy(), (bins.upper - bins.lower)[filled].numpy()
    accuracy, confidence = bins.accuracy[filled].numpy(), bins.confidence[filled].numpy()

    _plot_accuracy_bars(ax, left, width, accuracy)
    outline: dict[str, Any] = {"facecolor": "none", "edgecolor": ORANGE, "hatch": "////", "lw": 0.5}
    ax.bar(left, confidence - accuracy, width, accuracy, align="edge", label="gap to confidence", **outline)
    ax.plot([0, 1], [0, 1], color="black", linestyle="--", linewidth=1, label="calibrated")
    if level is not None:
        count = bins.count[filled].numpy()
        low, high = wilson_interval((accuracy * count).round(), count, level)
        errors = np.stack([accuracy - low, high - accuracy]).clip(0)  # rounding may leave -1e-17
        bars: dict[str, Any] = {"fmt": "none", "ecolor": "black", "elinewidth": 0.8, "capsize": 1.5}
        ax.errorbar(left + width / 2, accuracy, errors, label=f"{100 * level:g} % interval", **bars)
    _plot_counts(ax, result)
    ax.set(xlim=(0, 1), ylim=(-STRIP_HEIGHT, 1), xlabel="confidence", ylabel="accuracy", aspect="equal")
    ax.set(xticks=FRACTION_TICKS, yticks=FRACTION_TICKS)
    # Above the axes, where it covers no bar.
    summary = f"ECE {result.ece:.3f}\naccuracy {result.accuracy:.3f} · confidence {result.mean_confidence:.3f}"
    ax.text(0.5, 1.01, summary, transform=ax.transAxes, ha="center", va="bottom", fontsize="x-small")
    finish(ax, legend=False, title=title, title_pad=26)
    if is_new:
        ax.figure.legend(loc="outside lower center", ncols=2, fontsize="small", edgecolor="none")
    return ax


def save_reliability(results: Sequence[tuple[str, CalibrationResult]], path: Path, *, title: str | None = None) -> None:
    """Write the reliability diagrams of named results, three in a row, to a .png, .pdf or .svg file."""
    from matplotlib.figure import Figure

    columns = min(len(results), 3)
    rows = -(-len(results) // columns)
    figure = Figure(figsize=(4 * columns, 4.8 * rows), layout="constrained")
    for number, (name, result) in enumerate(results, start=1):
        ax = plot_reliability(result, ax=figure.add_subplot(rows, columns, number), title=name)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.suptitle(title or "")
    write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=110))


def plot_coverage(
    results: Mapping[str, CalibrationResult], *, ax: Axes | None = None, title: str | None = None
) -> Axes:
    """Plot the share of examples with confidence above a threshold, in bins whose accuracy is also above it.

    ``results`` are results of `Calibration.compute` by their name in the legend. The plotted numbers are
    ``result.bins.coverage()`` at the thresholds ``result.bins.lower``.

    >>> from singleshot import Calibration
    >>> calibration = Calibration(bins=10)
    >>> calibration.update(probs=[[0.9, 0.1], [0.3, 0.7]], labels=[0, 0])
    >>> ax = plot_coverage({"a network": calibration.compute()})
    >>> ax.get_ylabel()
    'coverage'
    """
    check_curves("results", results)
    points = {name: (one.bins.lower.numpy(), one.bins.coverage().numpy()) for name, one in results.items()}
    ax = _plot_curves(points, ax, title)
    ax.set(ylim=(0, 1.03), yticks=FRACTION_TICKS)
    ax.set(xlabel="threshold of confidence and bin accuracy", ylabel="coverage")
    return ax


def plot_risk_coverage(curves: Mapping[str, RiskCoverage], *, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Plot the error rate of the accepted predictions against the share that is accepted.

    A good confidence gives a curve that stays low and rises late. ``curves`` are results of `risk_coverage` by their
    name in the legend. The plotted numbers are ``curve.coverage`` and ``curve.risk``.

    >>> from singleshot import Examples, risk_coverage
    >>> examples = Examples.of(probs=[[0.9, 0.1], [0.3, 0.7]], labels=[0, 0])
    >>> ax = plot_risk_coverage({"a network": risk_coverage(examples)})
    >>> ax.get_xlabel()
    'coverage'
    """
    shown = check_curves("curves", curves).values()
    # The first few examples may all be wrong: a risk of 1 there would flatten the rest of the plot.
    highest = max(curve.risk[curve.coverage >= 0.05].max(initial=0.0) for curve in shown)
    ax = _plot_curves({name: (curve.coverage, curve.risk) for name, curve in curves.items()}, ax, title)
    ax.set(ylim=(0, min(1.02, 1.1 * highest + 0.01)), xlabel="coverage", ylabel="risk (share of errors)")
    return ax


def plot_variance(histogram: VarianceBins, *, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Plot accuracy, mean score and cumulative share of the examples per bin of the normalized variance.

    ``histogram`` is the result of `VarianceHistogram.compute`. The axis ends at the last non-empty bin; empty bins
    before it are left blank.

    >>> import torch
    >>> from singleshot import VarianceHistogram
    >>> histogram = VarianceHistogram(bins=10)
    >>> histogram.update(logits=torch.tensor([[[2.0, 0.0]], [[0.0, 2.0]]]), labels=torch.tensor([0]))  # two passes
    >>> ax = plot_variance(histogram.compute())
    >>> ax.get_xlabel()
    'normalized variance (1 examples)'
    """
    check_type("histogram", histogram, VarianceBins)
    ax = new_axes() if ax is None else ax
    filled = histogram.count > 0
    left, right = histogram.lower[filled].numpy(), histogram.upper[filled].numpy()
    _plot_accuracy_bars(ax, left, right - left, histogram.accuracy[filled].numpy())
    # A white edge separates each marker from its bar, also in greyscale.
    edge: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.7, "markersize": 6}
    scores = histogram.score[filled].numpy()
    ax.plot((left + right) / 2, scores, "D", color=VERMILLION, label="mean score", **edge)
    last = float(right.max())
    shown = histogram.lower < last
    edges, shares = histogram.upper[shown].tolist(), histogram.coverage[shown].tolist()
    ax.plot([0.0, *edges], [0.0, *shares], color="black", linestyle="--", linewidth=1, label="cumulative share")
    label = f"normalized variance ({int(histogram.count.sum()):,} examples)"
    # The space above 1 is for the legend, which would hide a curve anywhere else.
    ax.set(xlim=(0, last), ylim=(0, 1.35), yticks=FRACTION_TICKS, xlabel=label, ylabel="accuracy, score, share")
    score, share, bars = ax.get_legend_handles_labels()[0]
    layout: dict[str, Any] = {"loc": "upper center", "ncols": 2, "handlelength": 1.8, "columnspacing": 1.0}
    finish(ax, legend=True, title=title, handles=[bars, score, share], **layout)
    return ax


def _plot_accuracy_bars(ax: Axes, left: Any, width: Any, accuracy: Any) -> None:
    ax.bar(left, accuracy, width, align="edge", color=BLUE, edgecolor="white", lw=0.5, label="accuracy")


def _plot_counts(ax: Axes, result: CalibrationResult) -> None:
    """Plot the examples per bin in a strip below accuracy 0."""
    bins = result.bins
    largest = int(bins.count.max())
    heights = (bins.count / largest * (STRIP_HEIGHT - 0.1)).numpy()
    widths = (bins.upper - bins.lower).numpy()
    ax.bar(bins.lower.numpy(), heights, widths, -STRIP_HEIGHT, align="edge", color=GREY, linewidth=0)
    ax.axhline(0, color="black", linewidth=0.8)
    label = f"{amount(result.count, 'example')}, at most {largest:,} in a bin"
    ax.text(0.02, -0.02, label, va="top", fontsize="x-small", color=GREY)


def _plot_curves(points: Mapping[str, tuple[Any, Any]], ax: Axes | None, title: str | None) -> Axes:
    """Plot named curves over a share or threshold in [0, 1]."""
    ax = new_axes() if ax is None else ax
    for (name, (x, y)), look in zip(points.items(), line_styles(len(points)), strict=True):
        ax.plot(x, y, label=name, markevery=1 if len(x) <= 20 else len(x) // 10, **look)
    ax.set(xlim=(0, 1), xticks=FRACTION_TICKS)
    ax.grid(alpha=0.3, linewidth=0.5)
    finish(ax, legend=len(points) > 1, title=title)
    return ax


def line_styles(count: int) -> list[dict[str, Any]]:
    """Return colour, marker and line style for each of several curves; 280 combinations are distinct.

    Where a colour is used again, the markers are hollow.

    >>> [style["marker"] for style in line_styles(2)]
    ['o', 's']
    """
    styles = zip(cycle(_COLOURS), cycle(_MARKERS), cycle(_LINES), strict=False)
    return [
        {
            "color": colour,
            "marker": marker,
            "markerfacecolor": colour if number < len(_COLOURS) else "white",
            "linestyle": line,
            "markersize": 3.5,
            "linewidth": 1.2,
        }
        for number, (colour, marker, line) in enumerate(islice(styles, count))
    ]


def new_axes(size: tuple[float, float] = (3.3, 2.5)) -> Axes:
    """Create a figure with one pair of axes, by default as wide as one column of a two-column page."""
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=size, layout="constrained")
    return ax


def check_type(name: str, value: object, expected: type) -> None:
    """Require the result of ``compute()``, and not the state it is computed from."""
    if not isinstance(value, expected):
        raise TypeError(f"{name} must be a {expected.__name__}, as compute() returns it, got {type(value).__name__}")


def check_curves(name: str, curves: Mapping[str, T]) -> Mapping[str, T]:
    """Require a non-empty mapping from names to curves."""
    if not isinstance(curves, Mapping):
        raise TypeError(f"{name} must be a mapping from names to curves, got {type(curves).__name__}")
    if not curves:
        raise ValueError(f"{name} must contain at least one curve, got none")
    return curves


def finish(ax: Axes, *, legend: bool, title: str | None, title_pad: float | None = None, **legend_options: Any) -> None:
    """Add the legend and the title, ``title_pad`` points above the axes."""
    if legend:
        options = {"fontsize": "small", "framealpha": 0.85, "edgecolor": "none", "handlelength": 2.6, **legend_options}
        ax.legend(**options)
    if title:
        ax.set_title(title, fontsize="medium", pad=title_pad)
