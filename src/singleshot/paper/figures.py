"""How the figures of the paper are laid out: a row for each data set and network, or a curve."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singleshot.common.checks import check_choice
from singleshot.common.files import write_atomically
from singleshot.grid.job import job_of
from singleshot.grid.store import ResultStore
from singleshot.metrics.variance_histogram import VarianceBins
from singleshot.paper.exhibits import CI, EXHIBITS
from singleshot.paper.figure_numbers import (
    Runs,
    Setting,
    compared,
    coverage_numbers,
    passes_eces,
    passes_numbers,
    reliability_numbers,
    setting_of,
    variance_numbers,
)
from singleshot.paper.passes_figure import plot_ece_against_passes
from singleshot.report import plot_coverage, plot_reliability
from singleshot.report.style import BLUE, FRACTION_TICKS, GREY, SKY, line_styles
from singleshot.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase


WIDTH = 9.0
"""Inches: three panels side by side, readable on a page."""
_PLAIN: dict[str, Any] = {"fontsize": "small", "edgecolor": "none"}
_CURVES = ("vwci", "baseline", *CI)
STYLES = dict(zip(_CURVES, line_styles(len(_CURVES)), strict=True))
"""A method looks the same in every panel."""


def draw_reliability(settings: Sequence[Setting]) -> Figure:
    """Fig. 1: reliability diagrams of the baseline, the best CI and VWCI, the predictions of all seeds together."""
    heights = (4.4 * len(settings), 0.6)
    figure = _new_figure(height=sum(heights))
    # A part of its own for the legend: an "outside" one is laid over the panels of subfigures.
    panels, below = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
    for setting, axes in _rows(panels, settings, columns=3):
        for ax, (title, runs) in zip(axes, compared(setting).items(), strict=True):
            if runs is None:
                _leave_empty(ax, title)
                continue
            # Seeds share their test images: intervals for that many independent predictions would be too narrow.
            plot_reliability(runs.pooled(), ax=ax, title=f"{title}\nECE {runs.ece} ({runs.seeds})", level=None)
            legend = ax.get_legend_handles_labels()
    note = "above a diagram: mean ± standard error over seeds; inside: all seeds together"
    below.legend(*legend, loc="center", ncols=3, title=note, title_fontsize="small", **_PLAIN)
    return figure


def draw_variance(settings: Sequence[Setting]) -> Figure:
    """Fig. 2: accuracy and score of the baseline's average prediction as its passes disagree more."""
    figure = _new_figure(height=3.2 * len(settings))
    for setting, (left, middle, right) in _rows(figure, settings, columns=3, note=_baseline_seeds):
        bins = setting.runs["baseline"].variance()
        assert bins is not None  # what has none has no numbers, and is not drawn
        _by_variance(left, bins, "accuracy", {"facecolor": BLUE, "edgecolor": "white"})
        _by_variance(middle, bins, "score", {"facecolor": SKY, "edgecolor": "white", "hatch": "///"})
        _score_and_accuracy(right, bins)
    return figure


def draw_passes(settings: Sequence[Setting]) -> Figure:
    """Fig. 4: ECE of VWCI against the passes in training, a curve for each network, beside the baseline's."""
    figure = _new_figure(width=5.5, height=3.0 + 0.5 * len(settings))
    ax = figure.subplots()
    curves = {f"{setting.name}, VWCI": passes_eces(setting) for setting in settings}
    plot_ece_against_passes(curves, ax=ax, title=f"mean ± standard error ({_seeds(settings)})")
    highest = ax.dataLim.y1
    for setting, style in zip(settings, line_styles(len(settings)), strict=True):
        baseline = setting.runs.get("baseline")
        if baseline is not None:
            # Colours alone would not tell lines apart in print: hollow markers at both ends do.
            look = {**style, "linestyle": "--", "linewidth": 1.0, "markerfacecolor": "white", "clip_on": False}
            name = f"{setting.name}, baseline: {baseline.ece} ({baseline.seeds})"
            ax.axhline(baseline.ece.mean, label=name, **look)
            highest = max(highest, baseline.ece.mean)
    ax.set_ylim(0, 1.08 * highest or 1.0)
    ax.yaxis.set_major_formatter("{x:.3f}")  # labels that grow after the layout is made would push their axis out
    _legend_below(ax)
    return figure


def draw_coverage(settings: Sequence[Setting]) -> Figure:
    """Fig. 5: coverage of the baseline, the best CI and VWCI, and of VWCI beside CI of every strength."""
    figure = _new_figure(height=4.2 * len(settings))
    for setting, (left, right) in _rows(figure, settings, columns=2):
        _coverage(left, {title: runs for title, runs in compared(setting).items() if runs is not None})
        every = [setting.runs[method] for method in (*CI, "vwci") if method in setting.runs]
        _coverage(right, {runs.title: runs for runs in every})
    return figure


def _new_figure(*, width: float = WIDTH, height: float) -> Figure:
    """A figure of its own: pyplot would keep it until it is told to forget it."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _rows(
    figure: FigureBase,
    settings: Sequence[Setting],
    *,
    columns: int,
    note: Callable[[Setting], str] = lambda setting: "",
) -> Iterator[tuple[Setting, list[Axes]]]:
    """Each setting with the axes of its row, under its name and a note."""
    for setting, row in zip(settings, figure.subfigures(len(settings), 1, squeeze=False)[:, 0], strict=True):
        row.suptitle(setting.name + note(setting))
        yield setting, list(row.subplots(1, columns))


def _baseline_seeds(setting: Setting) -> str:
    return f", baseline ({setting.runs['baseline'].seeds})"


def _seeds(settings: Sequence[Setting]) -> str:
    """The seeds of all their runs, from the fewest to the most where methods differ."""
    runs = [one for setting in settings for one in setting.runs.values()]
    least, most = (pick(runs, key=lambda one: len(one.results)) for pick in (min, max))
    fewest = len(least.results)
    return most.seeds if fewest == len(most.results) else f"{fewest} to {most.seeds}"


def _leave_empty(ax: Axes, title: str) -> None:
    ax.set_axis_off()
    ax.text(0.5, 0.5, f"{title}:\nnot there yet", transform=ax.transAxes, ha="center", va="center", color=GREY)


def _legend_below(ax: Axes, columns: int = 1) -> None:
    """The legend where it hides no curve."""
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=columns, handlelength=3.2, **_PLAIN)


def _by_variance(ax: Axes, bins: VarianceBins, name: str, look: dict[str, Any]) -> None:
    """Bars of accuracy or score per bin of the variance, up to the last bin with examples, and the cumulative share."""
    filled = bins.count > 0
    last = float(bins.upper[filled].max())
    left, width = bins.lower[filled].numpy(), (bins.upper - bins.lower)[filled].numpy()
    ax.bar(left, getattr(bins, name)[filled].numpy(), width, align="edge", lw=0.5, **look)
    shown = bins.lower < last
    share = [0.0, *bins.coverage[shown].tolist()]
    ax.plot([0.0, *bins.upper[shown].tolist()], share, color="black", linestyle="--", lw=1.2, label="cumulative share")
    ax.set(xlim=(0, last), ylim=(0, 1.03), xlabel="normalized variance", ylabel=name)
    ax.set_yticks(FRACTION_TICKS)
    _legend_below(ax)


def _score_and_accuracy(ax: Axes, bins: VarianceBins) -> None:
    """Each bin of the variance as a point whose area is its share of the predictions; dark is little variance."""
    filled = bins.count > 0
    share = (bins.count[filled] / bins.count.sum()).numpy()
    variance = ((bins.lower + bins.upper) / 2)[filled].numpy()
    ax.plot([0, 1], [0, 1], color="black", linestyle="--", linewidth=1)
    points = ax.scatter(
        bins.score[filled].numpy(), bins.accuracy[filled].numpy(), 12 + 200 * share, variance,
        cmap="cividis", vmin=0.0, vmax=float(bins.upper[filled].max()),
        edgecolors="black", linewidths=0.6, clip_on=False, zorder=3,
    )  # fmt: skip
    ax.figure.colorbar(points, ax=ax, label="normalized variance", shrink=0.9)
    ax.set(xlim=(0, 1), ylim=(0, 1.03), xlabel="score", ylabel="accuracy")
    ax.set_title(f"areas: shares of {int(bins.count.sum()):,} predictions", fontsize="small")
    ax.set_xticks(FRACTION_TICKS)
    ax.set_yticks(FRACTION_TICKS)


def _coverage(ax: Axes, named: dict[str, Runs]) -> None:
    if not named:
        _leave_empty(ax, "CI and VWCI")
        return
    plot_coverage({f"{title} ({runs.seeds})": runs.pooled() for title, runs in named.items()}, ax=ax)
    for line, runs in zip(ax.get_lines(), named.values(), strict=True):
        line.set(**STYLES[runs.method])
    _legend_below(ax, columns=1 if len(named) <= 3 else 2)


FORMATS = (".png", ".pdf", ".svg")


@dataclass(frozen=True)
class _Parts:
    """What a figure is made of."""

    numbers: Callable[[Setting], dict[str, Any]]  # of one data set and network; empty where there is nothing to draw
    draw: Callable[[Sequence[Setting]], Figure]


_FIGURES = {
    "fig1": _Parts(reliability_numbers, draw_reliability),
    "fig2": _Parts(variance_numbers, draw_variance),
    "fig4": _Parts(passes_numbers, draw_passes),
    "fig5": _Parts(coverage_numbers, draw_coverage),
}


def draw_figure(exhibit: str, bases: Sequence[Recipe], seeds: int, store: ResultStore) -> tuple[Figure, dict[str, Any]]:
    """The figure, and the numbers behind it, ready for JSON, with the runs that are missing.

    What is there is drawn, every number with the seeds it is from; where nothing is, that is a ValueError.

    Args:
        exhibit: fig1, fig2, fig4 or fig5.
        bases: what all methods share, one for each data set and network.
        seeds: how many were asked for.
        store: the finished runs.
    """
    check_choice("exhibit", exhibit, tuple(_FIGURES))
    parts = _FIGURES[exhibit]
    settings = [setting_of(base, EXHIBITS[exhibit], seeds, store) for base in bases]
    shown = [(setting, numbers) for setting in settings if (numbers := parts.numbers(setting))]
    missing = _missing(exhibit, bases, seeds, store)
    if not shown:
        reason = f"these runs are missing: {'; '.join(missing)}" if missing else "no network in it has any noise"
        raise ValueError(f"{exhibit} has nothing to draw: {reason}")
    found = [{"dataset": setting.dataset, "model": setting.model, **numbers} for setting, numbers in shown]
    return parts.draw([setting for setting, _ in shown]), {"exhibit": exhibit, "settings": found, "missing": missing}


def save_figure(
    exhibit: str, bases: Sequence[Recipe], seeds: int, store: ResultStore, path: Path | str
) -> dict[str, Any]:
    """Draw into a file, in the format that its suffix says, and return the numbers; see `draw_figure`."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"a figure is saved as {', '.join(FORMATS)}, got {path.name!r}")
    figure, numbers = draw_figure(exhibit, bases, seeds, store)
    write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=150))
    return numbers


def _missing(exhibit: str, bases: Sequence[Recipe], seeds: int, store: ResultStore) -> list[str]:
    """The runs that are not there, in one line for each data set, network and method."""
    lines = []
    for base in bases:
        for method in EXHIBITS[exhibit]:
            absent = [str(seed) for seed in range(seeds) if job_of(base, method, seed) not in store]
            if absent:
                place = f"{base.model} on {Path(base.dataset).name}"
                lines.append(f"{place}, {method}, seed{'s' if len(absent) > 1 else ''} {', '.join(absent)}")
    return lines
