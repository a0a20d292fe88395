"""Shared style of the figures: a colour-blind safe palette, line styles, axes, legend and title."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, TypeVar

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


def line_styles(count: int) -> list[dict[str, Any]]:
    """Return colour, marker and line style for each of several curves; 280 combinations are distinct.

    >>> [style["marker"] for style in line_styles(2)]
    ['o', 's']
    """
    styles = zip(cycle(_COLOURS), cycle(_MARKERS), cycle(_LINES), strict=False)
    return [
        {"color": colour, "marker": marker, "linestyle": line, "markersize": 3.5, "linewidth": 1.2}
        for colour, marker, line in islice(styles, count)
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


def finish(ax: Axes, *, legend: bool, title: str | None, **legend_options: Any) -> None:
    """Add the legend and the title."""
    if legend:
        options = {"fontsize": "small", "framealpha": 0.85, "edgecolor": "none", "handlelength": 2.6, **legend_options}
        ax.legend(**options)
    if title:
        ax.set_title(title, fontsize="medium")
