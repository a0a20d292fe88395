"""How figures look: colours told apart by every kind of colour vision, and by marker, line or hatching in print."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes


T = TypeVar("T")

# The palette of Okabe and Ito, without the yellow, which is too light for a line on white.
BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000",
)  # fmt: skip
GREY = "#555555"

_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, BLACK, ORANGE, SKY)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))

COLUMN = (3.3, 2.5)
"""Inches: what one column of a two-column page holds."""

FRACTION_TICKS = (0, 0.2, 0.4, 0.6, 0.8, 1.0)


def line_styles(count: int) -> list[dict[str, Any]]:
    """Colour, marker and line of each of several curves. The cycles have different lengths: 280 differ from each other.

    >>> [style["marker"] for style in line_styles(2)]
    ['o', 's']
    """
    styles = zip(cycle(_COLOURS), cycle(_MARKERS), cycle(_LINES), strict=False)
    return [
        {"color": colour, "marker": marker, "linestyle": line, "markersize": 3.5, "linewidth": 1.2}
        for colour, marker, line in islice(styles, count)
    ]


def new_axes(size: tuple[float, float] = COLUMN) -> Axes:
    """Axes in a figure of their own, of this size in inches."""
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=size, layout="constrained")
    return ax


def check_curves(name: str, curves: Mapping[str, T]) -> Mapping[str, T]:
    """Refuse what is no mapping from a name to something to draw, and one with nothing in it."""
    if not isinstance(curves, Mapping):
        raise ValueError(f"{name} must map a name to what is drawn under it, got {type(curves).__name__}")
    if not curves:
        raise ValueError(f"{name} must hold at least one curve, got none")
    return curves


def finish(ax: Axes, *, legend: bool, title: str | None, **legend_options: Any) -> None:
    """The legend, where there is something to tell apart, and the title, if there is one."""
    if legend:
        options = {"fontsize": "small", "framealpha": 0.85, "edgecolor": "none", "handlelength": 2.6, **legend_options}
        ax.legend(**options)
    if title:
        ax.set_title(title, fontsize="medium")
