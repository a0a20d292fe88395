"""The figures of the paper, one row of panels or one curve per network."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singleshot.common.checks import check_choice, check_size
from singleshot.common.files import write_atomically
from singleshot.grid.store import ResultStore
from singleshot.metrics.variance_histogram import VarianceBins
from singleshot.paper.experiments import EXPERIMENTS
from singleshot.paper.figure_numbers import (
    MethodRuns,
    coverage_numbers,
    eces_by_passes,
    oracle,
    passes_numbers,
    reliability_numbers,
    runs_by_method,
    variance_numbers,
)
from singleshot.paper.methods import CI
from singleshot.paper.seed_means import Estimate, Runs
from singleshot.report import plot_coverage, plot_reliability
from singleshot.report.style import BLUE, FRACTION_TICKS, GREY, SKY, check_curves, finish, line_styles, new_axes
from singleshot.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

WIDTH = 9.0  # inches
_LEGEND: dict[str, Any] = {"fontsize": "small", "edgecolor": "none"}
_CURVES = ("vwci", "baseline", *CI)
STYLES = dict(zip(_CURVES, line_styles(len(_CURVES)), strict=True))
"""The line style of each method, the same in every panel."""


def draw_figure(
    experiment: str, bases: Sequence[Recipe], seeds: int, store: ResultStore
) -> tuple[Figure, dict[str, Any]]:
    """Return the figure and its numbers for JSON, with a list of missing runs; raise ValueError without any run."""
    check_choice("experiment", experiment, tuple(_FIGURES))
    numbers_of, draw = _FIGURES[experiment]
    networks = [Runs(base, seeds, store) for base in bases]
    shown = [(network, numbers) for network in networks if (numbers := numbers_of(network))]
    missing = [line for network in networks for line in _missing(experiment, network)]
    if not shown:
        reason = f"these runs are missing: {'; '.join(missing)}" if missing else "none of its networks has noise"
        raise ValueError(f"{experiment} has nothing to draw: {reason}")
    settings = [{"dataset": one.dataset, "model": one.base.model, **numbers} for one, numbers in shown]
    numbers = {"experiment": experiment, "settings": settings, "missing": missing}
    return draw([network for network, _ in shown]), numbers


def save_figure(experiment: str, bases: Sequence[Recipe], seeds: int, store: ResultStore, path: Path) -> dict[str, Any]:
    """Draw into a file, in the format of its suffix, and return the numbers; see `draw_figure`."""
    figure, numbers = draw_figure(experiment, bases, seeds, store)
    write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=150))
    return numbers


def _missing(experiment: str, network: Runs) -> Iterator[str]:
    """Yield one line per method with missing runs."""
    for method in EXPERIMENTS[experiment]:
        absent = sorted(set(range(network.seeds)) - network.results(method).keys())
        if absent:
            yield f"{network.name}, {method}, seed{'s' if len(absent) > 1 else ''} {', '.join(map(str, absent))}"


def plot_ece_against_passes(
    methods: Mapping[str, Mapping[int, Sequence[float]]], *, ax: Axes | None = None, title: str | None = None
) -> Axes:
    """Plot the mean ECE over seeds, with its standard error, against the number of stochastic passes.

    Args:
        methods: by legend entry, the ECE of each seed by the number of passes.
        ax: the axes to draw on; a new figure by default.
        title: title of the axes.
    """
    for name, eces in check_curves("methods", methods).items():
        if not eces:
            raise ValueError(f"methods[{name!r}] must hold at least one number of passes, got none")
        for number, values in eces.items():
            check_size("passes", number, least=1)
            if not len(values) or not all(isinstance(value, float) and math.isfinite(value) for value in values):
                raise ValueError(f"the ECEs of {number} passes must be finite numbers, one per seed, got {values!r}")
    ax = new_axes() if ax is None else ax
    highest = 0.0
    for (name, eces), style in zip(methods.items(), line_styles(len(methods)), strict=True):
        passes = sorted(eces)
        estimates = [Estimate.of(eces[number]) for number in passes]
        errors = [estimate.standard_error or 0.0 for estimate in estimates]
        fewest, most = (select(estimate.seeds for estimate in estimates) for select in (min, max))
        label = f"{name} ({f'{fewest} to ' if fewest < most else ''}{most} seed{'s' if most > 1 else ''})"
        means = [estimate.mean for estimate in estimates]
        ax.errorbar(passes, means, errors, label=label, capsize=2, elinewidth=0.8, **style)
        highest = max(highest, *(mean + error for mean, error in zip(means, errors, strict=True)))
    ax.set(xlabel="stochastic passes $T$", ylabel="ECE")
    headroom = 1.1 + 0.11 * len(methods)  # one legend line each
    ax.set_ylim(0, headroom * highest or 1.0)
    ax.set_xticks(sorted({passes for eces in methods.values() for passes in eces}))
    ax.grid(axis="y", alpha=0.3, linewidth=0.5)
    finish(ax, legend=True, title=title, loc="upper right")
    return ax


def _draw_reliability(networks: Sequence[Runs]) -> Figure:
    """Fig. 1: reliability diagrams of the baseline, the best CI and VWCI, all seeds pooled."""
    heights = (4.4 * len(networks), 0.6)
    figure = _new_figure(height=sum(heights))
    # A subfigure for the legend: an "outside" legend would overlap the panels of subfigures.
    panels, below = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
    for network, axes in _rows(panels, networks, columns=3):
        for ax, (title, runs) in zip(axes, _compared("fig1", network).items(), strict=True):
            if runs is None:
                _leave_empty(ax, title)
                continue
            # No intervals: seeds share their test images, so pooled predictions are not independent.
            plot_reliability(runs.pooled(), ax=ax, title=f"{title}\nECE {runs.ece} ({runs.seeds})", level=None)
            legend = ax.get_legend_handles_labels()
    note = "above a diagram: mean ± standard error over seeds; inside: all seeds pooled"
    below.legend(*legend, loc="center", ncols=3, title=note, title_fontsize="small", **_LEGEND)
    return figure


def _draw_variance(networks: Sequence[Runs]) -> Figure:
    """Fig. 2: accuracy and score of the baseline's mean prediction against the disagreement of its passes."""
    figure = _new_figure(height=3.2 * len(networks))
    for network, (left, middle, right) in _rows(figure, networks, columns=3):
        runs = runs_by_method("fig2", network)["baseline"]
        left.figure.suptitle(f"{network.name}, baseline ({runs.seeds})")
        bins = runs.variance()
        assert bins is not None  # networks without numbers are not drawn
        _plot_by_variance(left, bins, "accuracy", facecolor=BLUE, edgecolor="white")
        _plot_by_variance(middle, bins, "score", facecolor=SKY, edgecolor="white", hatch="///")
        _plot_score_and_accuracy(right, bins)
    return figure


def _draw_passes(networks: Sequence[Runs]) -> Figure:
    """Fig. 4: ECE of VWCI against the number of passes in training, and ECE of the baseline."""
    figure = _new_figure(width=5.5, height=3.0 + 0.5 * len(networks))
    ax = figure.subplots()
    found = [runs_by_method("fig4", network) for network in networks]
    fewest, *_, most = sorted((runs for one in found for runs in one.values()), key=lambda runs: len(runs.results))
    seeds = f"{len(fewest.results)} to {most.seeds}" if len(fewest.results) < len(most.results) else most.seeds
    curves = {f"{network.name}, VWCI": eces_by_passes(network) for network in networks}
    plot_ece_against_passes(curves, ax=ax, title=f"mean ± standard error ({seeds})")
    highest = ax.dataLim.y1
    for network, by_method, style in zip(networks, found, line_styles(len(networks)), strict=True):
        if baseline := by_method.get("baseline"):
            # Hollow markers at both ends distinguish the lines in print.
            look = {**style, "linestyle": "--", "linewidth": 1.0, "markerfacecolor": "white", "clip_on": False}
            label = f"{network.name}, baseline: {baseline.ece} ({baseline.seeds})"
            ax.axhline(baseline.ece.mean, label=label, **look)
            highest = max(highest, baseline.ece.mean)
    ax.set_ylim(0, 1.08 * highest or 1.0)
    ax.yaxis.set_major_formatter("{x:.3f}")  # labels of changing width would move the axis after the layout
    _legend_below(ax)
    return figure


def _draw_coverage(networks: Sequence[Runs]) -> Figure:
    """Fig. 5: coverage of the baseline, the best CI and VWCI, and of VWCI and CI with every β."""
    figure = _new_figure(height=4.2 * len(networks))
    for network, (left, right) in _rows(figure, networks, columns=2):
        _plot_coverage(left, {title: runs for title, runs in _compared("fig5", network).items() if runs is not None})
        found = runs_by_method("fig5", network).values()
        _plot_coverage(right, {runs.title: runs for runs in found if runs.method != "baseline"})
    return figure


def _compared(experiment: str, network: Runs) -> dict[str, MethodRuns | None]:
    """Return the three methods that the paper compares, by title; None: no runs."""
    runs, best = runs_by_method(experiment, network), oracle(network)
    beta = "" if best is None else best.title.removeprefix("CI")  # ", β = ..."
    tried = sum(method in runs for method in CI)
    return {
        "Baseline": runs.get("baseline"),
        f"CI[Oracle]{beta}" + (f" (of {tried} tried)" if 0 < tried < len(CI) else ""): best,
        "VWCI": runs.get("vwci"),
    }


_FIGURES: dict[str, tuple[Callable[[Runs], dict[str, Any]], Callable[[Sequence[Runs]], Figure]]] = {
    "fig1": (reliability_numbers, _draw_reliability),
    "fig2": (variance_numbers, _draw_variance),
    "fig4": (passes_numbers, _draw_passes),
    "fig5": (coverage_numbers, _draw_coverage),
}
"""The numbers of each figure, empty if there is nothing to draw, and its drawing function."""


def _new_figure(*, width: float = WIDTH, height: float) -> Figure:
    from matplotlib.figure import Figure  # pyplot would keep the figure open

    return Figure(figsize=(width, height), layout="constrained")


def _rows(figure: FigureBase, networks: Sequence[Runs], *, columns: int) -> Iterator[tuple[Runs, list[Axes]]]:
    """Yield each network with the axes of its row."""
    for network, row in zip(networks, figure.subfigures(len(networks), 1, squeeze=False)[:, 0], strict=True):
        row.suptitle(network.name)
        yield network, list(row.subplots(1, columns))


def _leave_empty(ax: Axes, title: str) -> None:
    ax.set_axis_off()
    ax.text(0.5, 0.5, f"{title}:\nno runs yet", transform=ax.transAxes, ha="center", va="center", color=GREY)


def _legend_below(ax: Axes, columns: int = 1) -> None:
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=columns, handlelength=3.2, **_LEGEND)


def _plot_by_variance(ax: Axes, bins: VarianceBins, name: str, **look: Any) -> None:
    """Plot accuracy or score per bin of the variance, up to the last bin with examples, and the cumulative share."""
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


def _plot_score_and_accuracy(ax: Axes, bins: VarianceBins) -> None:
    """Plot each bin of the variance as a point; its area is the share of predictions, its colour the variance."""
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


def _plot_coverage(ax: Axes, runs_by_title: dict[str, MethodRuns]) -> None:
    if not runs_by_title:
        _leave_empty(ax, "CI and VWCI")
        return
    plot_coverage({f"{title} ({runs.seeds})": runs.pooled() for title, runs in runs_by_title.items()}, ax=ax)
    for line, runs in zip(ax.get_lines(), runs_by_title.values(), strict=True):
        line.set(**STYLES[runs.method])
    _legend_below(ax, columns=1 if len(runs_by_title) <= 3 else 2)
