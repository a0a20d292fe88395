"""The runs in the figures of the paper, and their numbers for JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from singleshot.common.text import jsonable
from singleshot.grid.job import Result
from singleshot.metrics import CalibrationResult, VarianceHistogram
from singleshot.metrics.variance_histogram import VarianceBins
from singleshot.paper.experiments import EXPERIMENTS
from singleshot.paper.methods import METHODS, PASSES
from singleshot.paper.published import CI_ORACLE
from singleshot.paper.seed_means import Estimate, Runs, best_beta, format_seeds, pool


@dataclass(frozen=True)
class MethodRuns:
    """The finished runs of one method, at least one."""

    method: str
    results: tuple[Result, ...]
    wanted: int  # number of seeds

    @property
    def title(self) -> str:
        """Title of the method."""
        return METHODS[self.method].title

    @property
    def seeds(self) -> str:
        """Number of finished seeds, and of wanted ones if some are missing."""
        return f"{format_seeds(len(self.results), self.wanted)} seed{'s' if self.wanted > 1 else ''}"

    @property
    def eces(self) -> list[float]:
        """The ECE of each seed."""
        return [result.test.compute().ece for result in self.results]

    @property
    def ece(self) -> Estimate:
        """Mean ECE over seeds."""
        return Estimate.of(self.eces)

    def pooled(self) -> CalibrationResult:
        """Return the calibration of all seeds together."""
        return pool(self.results)

    def variance(self) -> VarianceBins | None:
        """Return the variance–accuracy histogram of all seeds together; None for a network without noise."""
        histograms = [result.variance for result in self.results if result.variance is not None]
        pooled = VarianceHistogram(bins=20)
        for histogram in histograms:
            pooled.merge(histogram)
        return pooled.compute() if histograms else None


def runs_by_method(experiment: str, network: Runs) -> dict[str, MethodRuns]:
    """Return the finished runs of each method of a figure that has any."""
    found = {method: tuple(network.results(method).values()) for method in EXPERIMENTS[experiment]}
    return {method: MethodRuns(method, results, network.seeds) for method, results in found.items() if results}


def eces_by_passes(network: Runs) -> dict[int, list[float]]:
    """Return the ECE of each seed of VWCI, by the number of passes."""
    runs = runs_by_method("fig4", network)
    return {passes: runs[f"vwci_T{passes}"].eces for passes in PASSES if f"vwci_T{passes}" in runs}


def oracle(network: Runs) -> MethodRuns | None:
    """Return CI with the β whose mean test ECE is lowest, on the seeds that all β have, as in the tables."""
    by_beta = network.values_by_beta()
    best = best_beta(by_beta, "ece")
    if best is None:
        return None
    results = network.results(best)
    return MethodRuns(best, tuple(results[seed] for seed in by_beta[best]), network.seeds)


def reliability_numbers(network: Runs) -> dict[str, Any]:
    """Fig. 1: the mean ECE and the pooled reliability diagram of each method, and the oracle."""
    found = runs_by_method("fig1", network)
    methods = {name: {"ece": vars(runs.ece), "pooled": runs.pooled().to_dict()} for name, runs in found.items()}
    return {**_oracle_name(network), "methods": methods} if methods else {}


def variance_numbers(network: Runs) -> dict[str, Any]:
    """Fig. 2: the variance–accuracy histogram of the baseline."""
    runs = runs_by_method("fig2", network).get("baseline")
    bins = None if runs is None else runs.variance()
    return {} if runs is None or bins is None else {"seeds": len(runs.results), "bins": jsonable(bins)}


def passes_numbers(network: Runs) -> dict[str, Any]:
    """Fig. 4: the ECE of VWCI by the number of passes, and of the baseline."""
    eces, baseline = eces_by_passes(network), network.estimates("baseline")
    points = [{"passes": passes, **vars(Estimate.of(values))} for passes, values in eces.items()]
    return {"baseline": vars(baseline["ece"]) if baseline else None, "vwci": points} if points else {}


def coverage_numbers(network: Runs) -> dict[str, Any]:
    """Fig. 5: the coverage of each method at each threshold, and the oracle."""
    methods = {}
    for name, runs in runs_by_method("fig5", network).items():
        bins = runs.pooled().bins
        methods[name] = {
            "seeds": len(runs.results),
            "thresholds": bins.lower.tolist(),
            "coverage": bins.coverage().tolist(),
        }
    return {**_oracle_name(network), "methods": methods} if methods else {}


def _oracle_name(network: Runs) -> dict[str, str | None]:
    best = oracle(network)
    return {CI_ORACLE: None if best is None else best.method}
