"""The numbers that the figures of the paper show, from the runs that are there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from singleshot.grid.job import job_of
from singleshot.grid.result import Result
from singleshot.grid.store import ResultStore
from singleshot.metrics import Calibration, CalibrationResult, VarianceHistogram
from singleshot.metrics.variance_histogram import VarianceBins
from singleshot.paper.exhibits import CI
from singleshot.paper.measurements import ORACLE, Estimate, best_beta, on_common_seeds, seeds_text
from singleshot.paper.methods import PASSES, method_of
from singleshot.paper.passes_figure import ece_by_passes
from singleshot.training.recipe import Recipe


@dataclass(frozen=True)
class Runs:
    """The finished runs of one method, at least one, of the seeds that were asked for."""

    method: str
    results: tuple[Result, ...]
    asked: int

    @property
    def title(self) -> str:
        """The method as a reader knows it."""
        return method_of(self.method).title

    @property
    def seeds(self) -> str:
        """How many seeds there are, and of how many where some are missing."""
        return f"{seeds_text(len(self.results), self.asked)} seed{'s' if self.asked > 1 else ''}"

    @property
    def eces(self) -> list[float]:
        """The ECE of each seed."""
        return [result.test.compute().ece for result in self.results]

    @property
    def ece(self) -> Estimate:
        """The mean over seeds, with its standard error."""
        return Estimate.of(self.eces)

    def pooled(self) -> CalibrationResult:
        """The predictions of all seeds together."""
        first, *others = (result.test for result in self.results)
        whole: Calibration = first.copy()
        for other in others:
            whole.merge(other)
        return whole.compute()

    def variance(self) -> VarianceBins | None:
        """The variance–accuracy histogram of all seeds together; None for a network without noise."""
        found = [result.variance for result in self.results if result.variance is not None]
        if not found:
            return None
        whole: VarianceHistogram = found[0].copy()
        for other in found[1:]:
            whole.merge(other)
        return whole.compute()


@dataclass(frozen=True)
class Setting:
    """A data set and a network, and the finished runs of each method that has any."""

    dataset: str
    model: str
    runs: dict[str, Runs]

    @property
    def name(self) -> str:
        """Both in a few words."""
        return f"{self.model} on {self.dataset}"


def setting_of(base: Recipe, methods: tuple[str, ...], seeds: int, store: ResultStore) -> Setting:
    """What is there of these methods from this base."""
    found = {}
    for method in methods:
        jobs = [job_of(base, method, seed) for seed in range(seeds)]
        results = tuple(store[job] for job in jobs if job in store)
        if results:
            found[method] = Runs(method, results, seeds)
    # A data set may be a folder: where it lies is nobody's business.
    return Setting(Path(base.dataset).name, base.model, found)


def oracle(runs: Mapping[str, Runs]) -> Runs | None:
    """CI with the strength whose mean ECE on the test images is least: no one can choose it so in advance.

    As in the tables, on the seeds that all strengths have; None without any.
    """
    results = {beta: {one.job.recipe.seed: one for one in runs[beta].results} for beta in CI if beta in runs}
    common = on_common_seeds(results)
    best = best_beta({beta: {seed: one.metrics() for seed, one in own.items()} for beta, own in common.items()}, "ece")
    return None if best is None else replace(runs[best], results=tuple(common[best].values()))


def compared(setting: Setting) -> dict[str, Runs | None]:
    """The three losses that the paper sets side by side, by title; None where there is nothing to show."""
    best = oracle(setting.runs)
    strength = "" if best is None else best.title.removeprefix("CI")  # ", β = ..."
    tried = sum(method in setting.runs for method in CI)
    return {
        "Baseline": setting.runs.get("baseline"),
        f"CI[Oracle]{strength}" + (f" (of {tried} tried)" if 0 < tried < len(CI) else ""): best,
        "VWCI": setting.runs.get("vwci"),
    }


def passes_eces(setting: Setting) -> dict[int, list[float]]:
    """The ECE of each seed of VWCI, by the number of passes."""
    return {T: setting.runs[f"vwci_T{T}"].eces for T in PASSES if f"vwci_T{T}" in setting.runs}


def reliability_numbers(setting: Setting) -> dict[str, Any]:
    """Fig. 1: each method's mean ECE and pooled reliability diagram, and which strength is the oracle's."""
    methods = {name: {"ece": vars(runs.ece), "pooled": runs.pooled().to_dict()} for name, runs in setting.runs.items()}
    return {**_oracle_name(setting), "methods": methods} if methods else {}


def variance_numbers(setting: Setting) -> dict[str, Any]:
    """Fig. 2: the variance–accuracy histogram of the baseline."""
    runs = setting.runs.get("baseline")
    bins = None if runs is None else runs.variance()
    if runs is None or bins is None:
        return {}
    return {"seeds": len(runs.results), "bins": {name: _plain(values.tolist()) for name, values in vars(bins).items()}}


def passes_numbers(setting: Setting) -> dict[str, Any]:
    """Fig. 4: the ECE of VWCI by the number of passes, and that of the baseline."""
    eces = passes_eces(setting)
    baseline = setting.runs.get("baseline")
    if not eces:
        return {}
    points = [vars(point) for point in ece_by_passes(eces)]
    return {"baseline": None if baseline is None else vars(baseline.ece), "vwci": points}


def coverage_numbers(setting: Setting) -> dict[str, Any]:
    """Fig. 5: each method's coverage at each threshold, and which strength of CI is the oracle's."""
    methods = {}
    for name, runs in setting.runs.items():
        bins = runs.pooled().bins
        methods[name] = {
            "seeds": len(runs.results),
            "thresholds": bins.lower.tolist(),
            "coverage": bins.coverage().tolist(),
        }
    return {**_oracle_name(setting), "methods": methods} if methods else {}


def _oracle_name(setting: Setting) -> dict[str, str | None]:
    best = oracle(setting.runs)
    return {ORACLE: None if best is None else best.method}


def _plain(values: list[float]) -> list[float | None]:
    """What is not finite, as the accuracy of no examples, becomes None."""
    return [value if math.isfinite(value) else None for value in values]
