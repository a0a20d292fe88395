"""The rows of a table: what several seeds measured of a method, and what the five strengths of CI say together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

from singleshot.experiments.estimate import Estimate, sample_deviation
from singleshot.experiments.measurements import SECONDS, TEMPERATURE_SCALING, Measured, values_by_seed
from singleshot.experiments.methods import METHODS
from singleshot.experiments.plan import CHOSEN_SMOOTHING, CI, chosen_smoothing
from singleshot.experiments.published import METRICS, PublishedRow
from singleshot.experiments.store import ResultStore
from singleshot.training.recipe import Recipe

OVER_BETA = "ci"
ORACLE = "ci_oracle"
TITLES = {
    OVER_BETA: "CI, mean ± std over β",
    ORACLE: "CI[Oracle]",
    "ts_case1": "TS (case 1)",
    "ts_case2": "TS (case 2)",
    CHOSEN_SMOOTHING: "Label smoothing",
    **{name: method.title for name, method in METHODS.items()},
}
BETTER = {metric: max if metric == "accuracy" else min for metric in METRICS}
"""Which of several values is the best one."""


@dataclass(frozen=True)
class Cell:
    """A measured number beside the published one; either may be missing."""

    measured: Estimate | None = None
    deviation: float | None = None  # sample deviation over β, which the CI row shows instead of an error over seeds
    paper: float | None = None
    paper_deviation: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Plain values, ready for JSON and CSV: what is missing or infinite is None."""
        measured = self.measured or Estimate(math.inf, None, 0)
        return {
            "mean": measured.mean if math.isfinite(measured.mean) else None,
            "standard_error": measured.standard_error,
            "std_over_beta": self.deviation,
            "seeds": measured.seeds,
            "paper": self.paper,
            "paper_std": self.paper_deviation,
        }


@dataclass(frozen=True)
class Row:
    """One method; its cells by metric, and its training time."""

    method: str  # its name, as `published` and `methods` have it
    title: str
    cells: dict[str, Cell]
    seconds: Estimate | None = None
    added: bool = False  # a row that the paper's table does not have
    remark: str | None = None  # what is unusual about its runs

    @property
    def seeds(self) -> int:
        """How many seeds are behind every measured number of the row."""
        measured = self.cells["accuracy"].measured
        return 0 if measured is None else measured.seeds

    @property
    def eligible(self) -> bool:
        """Whether it may be the best of a column: the oracle chooses by the test images, and may not."""
        return self.method != ORACLE

    @property
    def has_paper(self) -> bool:
        """Whether a published row stands beside it."""
        return any(cell.paper is not None for cell in self.cells.values())


def build_row(
    method: str,
    base: Recipe,
    seeds: int,
    store: ResultStore,
    *,
    paper: PublishedRow | None = None,
    added: bool = False,
) -> Row:
    """The row of a method, from what is there of its runs."""
    if method in (OVER_BETA, ORACLE):
        by_beta = {beta: values for beta in CI if (values := values_by_seed(base, beta, seeds, store))}
        measured = _over_beta(by_beta) if method == OVER_BETA else _oracle(by_beta)
        remark = f"only {len(by_beta)} of {len(CI)} β are there" if 0 < len(by_beta) < len(CI) else None
    else:
        values = values_by_seed(base, method, seeds, store)
        measured = {name: Cell(estimate) for name, estimate in _estimates(values).items()}
        remark = _left_out(base, method, seeds, store, counted=len(values))
    if method == CHOSEN_SMOOTHING:
        method = chosen_smoothing(base, store) or method
    return Row(
        method=method,
        title=TITLES[method],
        cells={metric: _beside(measured.get(metric, Cell()), metric, paper) for metric in METRICS},
        seconds=measured.get(SECONDS, Cell()).measured,
        added=added,
        remark=remark,
    )


def _estimates(values: Measured) -> dict[str, Estimate]:
    """Every number that is known of at least one seed, over the seeds it is known of."""
    known = {name: [run[name] for run in values.values() if name in run] for name in (*METRICS, SECONDS)}
    return {name: Estimate.of(numbers) for name, numbers in known.items() if numbers}


def _on_common_seeds(by_beta: dict[str, Measured]) -> dict[str, Measured]:
    """The seeds that every β has, so that β are compared and averaged alike while runs are missing."""
    common = sorted(set.intersection(*(set(values) for values in by_beta.values()))) if by_beta else []
    return {beta: {seed: values[seed] for seed in common} for beta, values in by_beta.items() if common}


def _over_beta(by_beta: dict[str, Measured]) -> dict[str, Cell]:
    """The mean over β of the means over seeds, and the sample deviation of these."""
    runs = list(_on_common_seeds(by_beta).values())
    cells = {}
    for name in (*METRICS, SECONDS) if runs else ():
        means = [fmean(run[name] for run in values.values()) for values in runs]
        each_seed = [fmean(values[seed][name] for values in runs) for seed in runs[0]]
        cells[name] = Cell(Estimate.of(each_seed), sample_deviation(means))
    return cells


def _oracle(by_beta: dict[str, Measured]) -> dict[str, Cell]:
    """The best mean over seeds of each column among the β; it has no training time, since it needs every run."""
    found = [_estimates(values) for values in _on_common_seeds(by_beta).values()]
    if not found:
        return {}
    return {
        metric: Cell(better((estimates[metric] for estimates in found), key=lambda estimate: estimate.mean))
        for metric, better in BETTER.items()
    }


def _left_out(base: Recipe, method: str, seeds: int, store: ResultStore, *, counted: int) -> str | None:
    """Of temperature scaling: the runs whose temperature was fitted on other images than the row is about."""
    if method not in TEMPERATURE_SCALING:
        return None
    trained, wanted = TEMPERATURE_SCALING[method]
    left_out = len(values_by_seed(base, trained, seeds, store)) - counted
    return f"{left_out} runs whose temperature was not fitted on {wanted} images are left out" if left_out else None


def _beside(cell: Cell, metric: str, paper: PublishedRow | None) -> Cell:
    if paper is None:
        return cell
    deviation = None if paper.std is None else paper.std[metric]
    return Cell(cell.measured, cell.deviation, paper.metrics[metric], deviation)
