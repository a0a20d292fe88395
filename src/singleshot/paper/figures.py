"""The figures of the paper, one row of panels or one curve per network, and their numbers for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from singleshot.common.checks import check_choice
from singleshot.common.files import write_atomically
from singleshot.common.text import jsonable
from singleshot.grid.store import ResultStore
from singleshot.metrics import VarianceHistogram
from singleshot.metrics.variance_histogram import VarianceBins
from singleshot.paper.experiments import EXPERIMENTS
from singleshot.paper.methods import CI, METHODS, PASSES
from singleshot.paper.published import CI_ORACLE
from singleshot.paper.seed_means import Estimate, Runs, format_seeds, pool
from singleshot.reporting import plot_coverage, plot_reliability, plot_variance
from singleshot.reporting.figures import GREY, check_curves, finish, line_styles, new_axes
from singleshot.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

WIDTH = 9.0  # inches
COMPARED = ("baseline", CI_ORACLE, "vwci")
"""The methods that the paper compares in a row of panels."""
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


def _finished(experiment: str, network: Runs) -> list[str]:
    return [method for method in EXPERIMENTS[experiment] if network.results(method)]


def _seeds(network: Runs, method: str) -> str:
    found = format_seeds(len(network.results(method)), network.seeds)
    return f"{found} seed{'s' if network.seeds > 1 else ''}"


def _title(network: Runs, method: str) -> str:
    """Return the title of a method; that of the oracle names the selected β and counts the candidates."""
    if method != CI_ORACLE:
        return METHODS[method].title
    best, tried = network.best_ci(), sum(bool(network.results(beta)) for beta in CI)
    beta = "" if best is None else METHODS[best].title.removeprefix("CI")  # ", β = ..."
    return f"CI[Oracle]{beta}" + (f" (of {tried} tried)" if 0 < tried < len(CI) else "")


def _reliability_numbers(network: Runs) -> dict[str, Any]:
    methods = {}
    for method in _finished("fig1", network):
        pooled = pool(network.results(method).values())
        methods[method] = {"ece": vars(network.estimates(method)["ece"]), "pooled": pooled.to_dict()}
    return {CI_ORACLE: network.best_ci(), "methods": methods} if methods else {}


def _draw_reliability(networks: Sequence[Runs]) -> Figure:
    """Fig. 1: reliability diagrams of the baseline, the best CI and VWCI, all seeds pooled."""
    heights = (4.4 * len(networks), 0.6)
    figure = _new_figure(height=sum(heights))
    # A subfigure for the legend: an "outside" legend would overlap the panels of subfigures.
    panels, below = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
    for network, axes in _rows(panels, networks, columns=len(COMPARED)):
        for ax, method in zip(axes, COMPARED, strict=True):
            results, title = network.results(method).values(), _title(network, method)
            if not results:
                _leave_empty(ax, title)
                continue
            title = f"{title}\nECE {network.estimates(method)['ece']} ({_seeds(network, method)})"
            # No intervals: seeds share their test images, so pooled predictions are not independent.
            plot_reliability(pool(results), ax=ax, title=title, level=None)
            legend = ax.get_legend_handles_labels()
    note = "title: mean ± standard error over seeds; line below it: all seeds pooled"
    below.legend(*legend, loc="center", ncols=3, title=note, title_fontsize="small", **_LEGEND)
    return figure


def _variance(network: Runs) -> VarianceBins | None:
    """Return the histogram of the baseline, all seeds pooled; None for a network without noise."""
    histograms = [result.variance for result in network.results("baseline").values() if result.variance is not None]
    pooled = VarianceHistogram(bins=20)
    for histogram in histograms:
        pooled.merge(histogram)
    return pooled.compute() if histograms else None


def _variance_numbers(network: Runs) -> dict[str, Any]:
    bins = _variance(network)
    return {} if bins is None else {"seeds": len(network.results("baseline")), "bins": jsonable(bins)}


def _draw_variance(networks: Sequence[Runs]) -> Figure:
    """Fig. 2: accuracy and score of the baseline's mean prediction against the disagreement of its passes."""
    figure = _new_figure(width=WIDTH / 2 * len(networks), height=3.4)
    for network, ax in zip(networks, figure.subplots(1, len(networks), squeeze=False)[0], strict=True):
        bins = _variance(network)
        assert bins is not None  # networks without numbers are not drawn
        plot_variance(bins, ax=ax, title=f"{network.name}, baseline ({_seeds(network, 'baseline')})")
    return figure


def _eces_by_passes(network: Runs) -> dict[int, list[float]]:
    """Return the ECE of each seed of VWCI, by the number of passes."""
    found = {passes: network.values(f"vwci_T{passes}").values() for passes in PASSES}
    return {passes: [run["ece"] for run in runs] for passes, runs in found.items() if runs}


def _passes_numbers(network: Runs) -> dict[str, Any]:
    eces, baseline = _eces_by_passes(network), network.estimates("baseline")
    points = [{"passes": passes, **vars(Estimate.of(values))} for passes, values in eces.items()]
    return {"baseline": vars(baseline["ece"]) if baseline else None, "vwci": points} if points else {}


def _draw_passes(networks: Sequence[Runs]) -> Figure:
    """Fig. 4: ECE of VWCI against the number of passes in training, and ECE of the baseline."""
    figure = _new_figure(width=5.5, height=3.0 + 0.5 * len(networks))
    ax = figure.subplots()
    found = {
        len(network.results(method)): _seeds(network, method)
        for network in networks
        for method in _finished("fig4", network)
    }
    fewest, most = min(found), max(found)
    seeds = f"{fewest} to {found[most]}" if fewest < most else found[most]
    curves = {f"{network.name}, VWCI": _eces_by_passes(network) for network in networks}
    plot_ece_against_passes(curves, ax=ax, title=f"mean ± standard error ({seeds})")
    highest = ax.dataLim.y1
    for network, style in zip(networks, line_styles(len(networks)), strict=True):
        if baseline := network.estimates("baseline"):
            # Hollow markers at both ends distinguish the lines in print.
            look = {**style, "linestyle": "--", "linewidth": 1.0, "markerfacecolor": "white", "clip_on": False}
            label = f"{network.name}, baseline: {baseline['ece']} ({_seeds(network, 'baseline')})"
            ax.axhline(baseline["ece"].mean, label=label, **look)
            highest = max(highest, baseline["ece"].mean)
    ax.set_ylim(0, 1.08 * highest or 1.0)
    ax.yaxis.set_major_formatter("{x:.3f}")  # labels of changing width would move the axis after the layout
    _legend_below(ax)
    return figure


def plot_ece_against_passes(
    methods: Mapping[str, Mapping[int, Sequence[float]]], *, ax: Axes | None = None, title: str | None = None
) -> Axes:
    """Plot the mean ECE over seeds, with its standard error, against the number of stochastic passes.

    Args:
        methods: by legend entry, the ECE of each seed by the number of passes.
        ax: the axes to draw on; a new figure by default.
        title: title of the axes.

    >>> ax = plot_ece_against_passes({"VWCI": {2: [0.10, 0.12], 5: [0.08, 0.09]}})  # two seeds each
    >>> ax.get_ylabel()
    'ECE'
    """
    for name, eces in check_curves("methods", methods).items():
        if not eces or not all(values and np.isfinite(values).all() for values in eces.values()):
            raise ValueError(
                f"methods[{name!r}] must hold finite ECEs, one per seed, by number of passes, got {eces!r}"
            )
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


def _coverage_numbers(network: Runs) -> dict[str, Any]:
    methods = {}
    for method in _finished("fig5", network):
        results = network.results(method).values()
        bins = pool(results).bins
        thresholds, coverage = bins.lower.tolist(), bins.coverage().tolist()
        methods[method] = {"seeds": len(results), "thresholds": thresholds, "coverage": coverage}
    return {CI_ORACLE: network.best_ci(), "methods": methods} if methods else {}


def _draw_coverage(networks: Sequence[Runs]) -> Figure:
    """Fig. 5: coverage of the baseline, the best CI and VWCI, and of VWCI and CI with every β."""
    figure = _new_figure(height=4.2 * len(networks))
    for network, (left, right) in _rows(figure, networks, columns=2):
        _plot_coverage(left, network, COMPARED)
        _plot_coverage(right, network, (*CI, "vwci"))
    return figure


def _plot_coverage(ax: Axes, network: Runs, methods: Sequence[str]) -> None:
    found = [method for method in methods if network.results(method)]
    if not found:
        _leave_empty(ax, "CI and VWCI")
        return
    labels = [f"{_title(network, method)} ({_seeds(network, method)})" for method in found]
    pooled = [pool(network.results(method).values()) for method in found]
    plot_coverage(dict(zip(labels, pooled, strict=True)), ax=ax)
    for line, method in zip(ax.get_lines(), found, strict=True):
        line.set(**STYLES[network.best_ci() or "" if method == CI_ORACLE else method])
    _legend_below(ax, columns=1 if len(found) <= 3 else 2)


_FIGURES = {
    "fig1": (_reliability_numbers, _draw_reliability),
    "fig2": (_variance_numbers, _draw_variance),
    "fig4": (_passes_numbers, _draw_passes),
    "fig5": (_coverage_numbers, _draw_coverage),
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
