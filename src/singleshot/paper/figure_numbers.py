"""The numbers behind the figures of the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from singleshot.common.checks import check_size
from singleshot.common.text import jsonable
from singleshot.grid.job import Result
from singleshot.grid.store import ResultStore
from singleshot.metrics import CalibrationResult, VarianceHistogram
from singleshot.metrics.variance_histogram import VarianceBins
from singleshot.paper.estimates import Estimate, best_beta, format_seeds, on_common_seeds, pool
from singleshot.paper.methods import CI, METHODS, PASSES, job_of
from singleshot.paper.published import CI_ORACLE
from singleshot.training.recipe import Recipe


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


@dataclass(frozen=True)
class NetworkRuns:
    """The finished runs with one network on one data set, by method."""

    dataset: str
    model: str
    runs: dict[str, MethodRuns]

    @property
    def name(self) -> str:
        """Network and data set."""
        return f"{self.model} on {self.dataset}"

    @classmethod
    def find(cls, base: Recipe, methods: Sequence[str], seeds: int, store: ResultStore) -> NetworkRuns:
        """Return the finished runs of these methods."""
        runs = {}
        for method in methods:
            jobs = [job_of(base, method, seed) for seed in range(seeds)]
            results = tuple(store[job] for job in jobs if job in store)
            if results:
                runs[method] = MethodRuns(method, results, seeds)
        return cls(Path(base.dataset).name, base.model, runs)  # not the path of a folder

    def oracle(self) -> MethodRuns | None:
        """Return CI with the β whose mean test ECE is lowest, on the seeds that all β have, as in the tables."""
        results = {
            beta: {one.job.recipe.seed: one for one in self.runs[beta].results}  # type: ignore[attr-defined]
            for beta in CI
            if beta in self.runs
        }
        common = on_common_seeds(results)
        values = {beta: {seed: one.metrics() for seed, one in own.items()} for beta, own in common.items()}
        best = best_beta(values, "ece")
        return None if best is None else replace(self.runs[best], results=tuple(common[best].values()))

    def compared(self) -> dict[str, MethodRuns | None]:
        """Return the three methods that the paper compares, by title; None: no runs."""
        best = self.oracle()
        beta = "" if best is None else best.title.removeprefix("CI")  # ", β = ..."
        tried = sum(method in self.runs for method in CI)
        return {
            "Baseline": self.runs.get("baseline"),
            f"CI[Oracle]{beta}" + (f" (of {tried} tried)" if 0 < tried < len(CI) else ""): best,
            "VWCI": self.runs.get("vwci"),
        }

    def eces_by_passes(self) -> dict[int, list[float]]:
        """Return the ECE of each seed of VWCI, by the number of passes."""
        return {passes: self.runs[f"vwci_T{passes}"].eces for passes in PASSES if f"vwci_T{passes}" in self.runs}


def estimate_by_passes(eces: Mapping[int, Sequence[float]]) -> dict[int, Estimate]:
    """Return the mean ECE over seeds for each number of passes, in ascending order.

    >>> estimate_by_passes({5: [0.1, 0.2], 2: [0.3]})[2]
    Estimate(mean=0.3, standard_error=None, seeds=1)
    """
    if not eces:
        raise ValueError("eces must hold at least one number of passes, got none")
    for passes, values in eces.items():
        check_size("passes", passes, least=1)
        if not len(values) or not all(isinstance(value, float) and math.isfinite(value) for value in values):
            raise ValueError(f"the ECEs of {passes} passes must be finite numbers, one per seed, got {values!r}")
    return {passes: Estimate.of(eces[passes]) for passes in sorted(eces)}


def reliability_numbers(network: NetworkRuns) -> dict[str, Any]:
    """Fig. 1: the mean ECE and the pooled reliability diagram of each method, and the oracle."""
    methods = {name: {"ece": vars(runs.ece), "pooled": runs.pooled().to_dict()} for name, runs in network.runs.items()}
    return {**_oracle_name(network), "methods": methods} if methods else {}


def variance_numbers(network: NetworkRuns) -> dict[str, Any]:
    """Fig. 2: the variance–accuracy histogram of the baseline."""
    runs = network.runs.get("baseline")
    bins = None if runs is None else runs.variance()
    if runs is None or bins is None:
        return {}
    return {"seeds": len(runs.results), "bins": jsonable(bins)}


def passes_numbers(network: NetworkRuns) -> dict[str, Any]:
    """Fig. 4: the ECE of VWCI by the number of passes, and of the baseline."""
    eces, baseline = network.eces_by_passes(), network.runs.get("baseline")
    if not eces:
        return {}
    points = [{"passes": passes, **vars(estimate)} for passes, estimate in estimate_by_passes(eces).items()]
    return {"baseline": None if baseline is None else vars(baseline.ece), "vwci": points}


def coverage_numbers(network: NetworkRuns) -> dict[str, Any]:
    """Fig. 5: the coverage of each method at each threshold, and the oracle."""
    methods = {}
    for name, runs in network.runs.items():
        bins = runs.pooled().bins
        methods[name] = {
            "seeds": len(runs.results),
            "thresholds": bins.lower.tolist(),
            "coverage": bins.coverage().tolist(),
        }
    return {**_oracle_name(network), "methods": methods} if methods else {}


def _oracle_name(network: NetworkRuns) -> dict[str, str | None]:
    best = network.oracle()
    return {CI_ORACLE: None if best is None else best.method}
