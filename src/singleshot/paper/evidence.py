"""What the runs of a regime show beyond its table: curves over training, errors, shifts, and the cost of a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from singleshot.common.files import write_atomically
from singleshot.grid.job import Result
from singleshot.grid.store import ResultStore
from singleshot.grid.training_job import TrainingJob
from singleshot.paper.experiments import SELECTED_SMOOTHING, smoothing_candidates, trained_method
from singleshot.paper.methods import CI, METHODS, TEMPERATURE_SCALING, job_of
from singleshot.paper.published import CI_MEAN, CI_ORACLE
from singleshot.paper.regimes import REGIMES
from singleshot.paper.seed_means import Estimate, Runs
from singleshot.reporting.figures import finish, line_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

UNSEEN = ("unused", "test")
"""Where a curve is measured: on training images that no run uses, or on test images in a regime without any."""
DRAWN = (
    *("baseline", "passes", "smoothing_0.1", "vwci", "vwci_one_gradient", "vwci_total_variation"),
    *("vwci_total_variation_one_gradient", "auto_smoothing", "auto_vwci"),
)
"""The methods of the figure."""
_STYLES = dict(zip(DRAWN, line_styles(len(DRAWN)), strict=True))


@dataclass(frozen=True)
class CurvePoint:
    """Means over seeds after an epoch: the accuracy on training images, and the calibration on unseen ones."""

    epoch: int
    train_accuracy: float
    ece: float
    nll: float
    seeds: int


def training_curve(runs: Runs, method: str) -> list[CurvePoint]:
    """Return the points that all finished runs of a method have."""
    curves = [{one["epoch"]: one for one in result.curve or []} for result in runs.results(method).values()]
    points = []
    for epoch in sorted(set.intersection(*map(set, curves))) if curves else []:
        found = [curve[epoch] for curve in curves]
        unseen = [next(one[split] for split in UNSEEN if split in one) for one in found]
        points.append(
            CurvePoint(
                epoch,
                fmean(one["train"]["accuracy"] for one in found),
                fmean(one["ece"] for one in unseen),
                fmean(one["nll"] for one in unseen),
                len(found),
            )
        )
    return points


def save_curves(regimes: Sequence[str], seeds: int, store: ResultStore, path: Path) -> None:
    """Draw the ECE on unseen images against the training accuracy, a panel per regime, a curve per method."""
    from matplotlib.figure import Figure

    networks = {regime: Runs(REGIMES[regime].recipe, seeds, store) for regime in regimes}
    found = {name: runs for name, runs in networks.items() if training_curve(runs, "baseline")}
    if not found:
        raise ValueError(f"no curves to draw: {', '.join(regimes)} have no finished baseline")
    columns = min(2, len(found))
    rows = -(-len(found) // columns)
    figure = Figure(figsize=(max(5.6, 4.6 * columns), 3.6 * rows + 1.1), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax, (regime, runs) in zip(panels, found.items(), strict=False):
        _plot_regime(ax, regime, runs)
    for ax in panels[len(found) :]:
        ax.set_axis_off()
    handles = {label: line for ax in figure.axes for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=1 + columns, fontsize="small", frameon=False
    )
    write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=150))


def _plot_regime(ax: Axes, regime: str, runs: Runs) -> None:
    seeds = len(runs.results("baseline"))
    for method in DRAWN:
        points = training_curve(runs, method)
        if points and points[-1].seeds == seeds:  # a mean of other seeds is not comparable
            accuracy, ece = [one.train_accuracy for one in points], [one.ece for one in points]
            ax.plot(accuracy, ece, label=METHODS[method].title, **_STYLES[method])
            ax.plot(accuracy[-1], ece[-1], **{**_STYLES[method], "markersize": 8})  # where the training ends
    ax.set(xlabel="training accuracy", ylabel="ECE on unseen images", ylim=(0, None))
    ax.grid(alpha=0.3, linewidth=0.5)
    finish(ax, legend=False, title=regime if seeds == runs.seeds else f"{regime} ({seeds} of {runs.seeds} seeds)")


def details(runs: Runs, method: str) -> dict[str, Estimate]:
    """Return the AURC, the AUROC of errors by confidence and by α, and the ECE under shift; empty without runs.

    Under shift, the ECE is the mean over all shifts, and over all their strengths or at the largest one.
    """
    found = [_details(result.details) for result in runs.results(method).values() if result.details]
    names = [name for name in found[0] if all(one[name] is not None for one in found)] if found else []
    return {name: Estimate.of([one[name] for one in found]) for name in names}


def _details(content: dict[str, Any]) -> dict[str, Any]:
    ranked = {
        f"auroc_{score}_{split}": content["errors"][split][score]
        for split in ("test", "train")
        for score in ("confidence", "alpha")
    }
    shifts = [[one["ece"] for one in strengths] for strengths in content["shift"].values()]
    return {
        "aurc": content["aurc"],
        **ranked,
        "shift_ece": fmean(ece for strengths in shifts for ece in strengths),
        "largest_shift_ece": fmean(strengths[-1] for strengths in shifts),
    }


@dataclass(frozen=True)
class Cost:
    """What one network that can be deployed takes, relative to one run of the baseline."""

    runs: int
    time: float  # processor time of all runs
    held_out: float  # share of the training images that some run holds out
    lost: float  # share of the training images that the network is never trained on


def total_cost(runs: Runs, method: str) -> Cost | None:
    """Return the cost with searches and held-out images, mean over the seeds that have all runs; None without any."""
    costs, needed = [], list[Result]()
    for seed, baseline in runs.results("baseline").items():
        results = _needed(runs, method, seed)
        spent = [result.cpu_seconds for result in (baseline, *results) if result.cpu_seconds and result.device == "cpu"]
        if results and len(spent) == 1 + len(results):
            costs.append(sum(spent[1:]) / spent[0])
            needed = results
    if not needed:
        return None
    recipes = [result.job.recipe for result in needed if isinstance(result.job, TrainingJob)]
    lost = recipes[-1].validation if recipes[-1].holds_out else 0.0
    return Cost(len(recipes), fmean(costs), max(recipe.validation for recipe in recipes), lost)


def _needed(runs: Runs, method: str, seed: int) -> list[Result]:
    """Return the results of all runs that a method takes, the deployed one last; empty if one is missing."""
    if method in (CI_MEAN, CI_ORACLE):
        jobs = [job_of(runs.base, beta, seed) for beta in CI]
    else:
        trained = trained_method(TEMPERATURE_SCALING.get(method, method), runs.base, runs.store)
        if trained is None:
            return []
        job = job_of(runs.base, trained, seed)
        jobs = [*([job.requires] if job.requires else []), job]
        if method == SELECTED_SMOOTHING:
            jobs = [*smoothing_candidates(runs.base), *jobs]
    return [] if runs.store.missing(jobs) else [runs.store[job] for job in jobs]
