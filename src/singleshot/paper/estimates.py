"""Means over seeds with their standard errors, paired differences, and ratios of training time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TypeVar

from singleshot.grid.job import Result
from singleshot.grid.store import ResultStore
from singleshot.metrics import Calibration, CalibrationResult
from singleshot.paper.experiments import SELECTED_SMOOTHING, select_smoothing
from singleshot.paper.methods import CI, job_of
from singleshot.paper.published import BETTER, CI_MEAN, CI_ORACLE, METRICS
from singleshot.training.recipe import Recipe

SECONDS = "cpu_seconds"
TEMPERATURE_SCALING = {"ts_case1": "baseline", "ts_case2": "held_out_baseline"}
"""Rows that rescale the runs of another method."""

Measured = dict[int, dict[str, float]]
"""By seed: every metric on the test images, and `SECONDS` if it is known."""
T = TypeVar("T")


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its standard error, which is None for one seed."""

    mean: float
    standard_error: float | None
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Return the mean and its standard error, the sample standard deviation over √n.

        >>> print(Estimate.of([0.1, 0.2, 0.3]))
        0.200 ± 0.058
        """
        deviation = sample_deviation(values)
        error = None if deviation is None else deviation / math.sqrt(len(values))
        return cls(fmean(values), error, len(values))

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """Return Student's interval around the mean; None for one seed.

        >>> low, high = Estimate.of([0.1, 0.2, 0.3]).interval()
        >>> round(low, 3), round(high, 3)
        (-0.048, 0.448)
        """
        if self.standard_error is None:
            return None
        from scipy.special import stdtrit

        width = float(stdtrit(self.seeds - 1, (1 + level) / 2)) * self.standard_error
        return self.mean - width, self.mean + width

    def __str__(self) -> str:
        return f"{self.mean:.3f}" if self.standard_error is None else f"{self.mean:.3f} ± {self.standard_error:.3f}"


def sample_deviation(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation; None for one value or if a value is infinite."""
    return stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None


def format_seeds(found: int, wanted: int) -> str:
    """Return the number of seeds behind a number, and the wanted number if it differs.

    >>> format_seeds(3, 3), format_seeds(2, 3)
    ('3', '2 of 3')
    """
    return str(found) if found == wanted else f"{found} of {wanted}"


def pool(results: Sequence[Result]) -> CalibrationResult:
    """Return the calibration of the test predictions of several runs together."""
    pooled = Calibration(bins=20)
    for result in results:
        pooled.merge(result.test)
    return pooled.compute()


def results_by_seed(base: Recipe, method: str, seeds: int, store: ResultStore) -> dict[int, Result]:
    """Return the finished runs behind a row."""
    name = TEMPERATURE_SCALING.get(method, method)
    trained = select_smoothing(base, store) if name == SELECTED_SMOOTHING else name
    if trained is None:
        return {}
    jobs = {seed: job_of(base, trained, seed) for seed in range(seeds)}
    return {seed: store[job] for seed, job in jobs.items() if job in store}


def values_by_seed(base: Recipe, method: str, seeds: int, store: ResultStore) -> Measured:
    """Return the measured values of the first ``seeds`` runs of a row.

    ``method`` is a name of `methods.METHODS`, ``ts_case1`` or ``ts_case2`` for temperature scaling, ``smoothing`` for
    the label smoothing that held-out images select, or ``ci`` or ``ci_oracle`` for a summary of CI over β, on the
    seeds that all values of β have.
    """
    if method == CI_MEAN:
        return _mean_over_beta(values_by_beta(base, seeds, store))
    if method == CI_ORACLE:
        return _best_over_beta(values_by_beta(base, seeds, store))
    rescaled = method in TEMPERATURE_SCALING
    results = results_by_seed(base, method, seeds, store)
    return {seed: _values(result, store, rescaled) for seed, result in results.items()}


def values_by_beta(base: Recipe, seeds: int, store: ResultStore) -> dict[str, Measured]:
    """Return the values of each method of CI that has runs, on the seeds that all of them have."""
    found = {beta: values_by_seed(base, beta, seeds, store) for beta in CI}
    return on_common_seeds({beta: values for beta, values in found.items() if values})


def on_common_seeds(by_method: Mapping[str, Mapping[int, T]]) -> dict[str, dict[int, T]]:
    """Restrict all methods to their common seeds, for a fair comparison.

    >>> on_common_seeds({"ci_1": {0: "a", 1: "b"}, "ci_0.1": {1: "c"}})
    {'ci_1': {1: 'b'}, 'ci_0.1': {1: 'c'}}
    """
    common = sorted(set.intersection(*map(set, by_method.values()))) if by_method else []
    return {method: {seed: values[seed] for seed in common} for method, values in by_method.items()}


def best_beta(by_beta: Mapping[str, Measured], metric: str) -> str | None:
    """Return the method of CI with the best mean over seeds."""
    means = {beta: fmean(run[metric] for run in values.values()) for beta, values in by_beta.items() if values}
    return BETTER[metric](means, key=means.__getitem__, default=None)


def paired_differences(base: Recipe, method: str, against: str, seeds: int, store: ResultStore) -> dict[str, Estimate]:
    """Return the mean difference ``method`` − ``against`` of each metric, over the seeds that both have.

    Runs with the same seed share their images and initial weights, whose effect cancels. Empty without common seeds.
    """
    pairs = _pairs(base, method, against, seeds, store)
    return {metric: Estimate.of([one[metric] - other[metric] for one, other in pairs]) for metric in METRICS if pairs}


def time_ratio(base: Recipe, method: str, seeds: int, store: ResultStore) -> Estimate | None:
    """Return the processor time of training relative to the baseline, over the seeds for which both are known."""
    pairs = _pairs(base, method, "baseline", seeds, store)
    ratios = [one[SECONDS] / other[SECONDS] for one, other in pairs if SECONDS in one and SECONDS in other]
    return Estimate.of(ratios) if ratios else None


def _pairs(
    base: Recipe, method: str, against: str, seeds: int, store: ResultStore
) -> list[tuple[dict[str, float], dict[str, float]]]:
    one, other = (values_by_seed(base, name, seeds, store) for name in (method, against))
    return [(one[seed], other[seed]) for seed in sorted(one.keys() & other.keys())]


def _mean_over_beta(by_beta: Mapping[str, Measured]) -> Measured:
    """Return the mean over β for each seed, including the training time if all have it."""
    runs_by_seed = {seed: [values[seed] for values in by_beta.values()] for seed in next(iter(by_beta.values()), {})}
    return {
        seed: {name: fmean(run[name] for run in runs) for name in runs[0] if all(name in run for run in runs)}
        for seed, runs in runs_by_seed.items()
    }


def _best_over_beta(by_beta: Mapping[str, Measured]) -> Measured:
    """Return each metric of its best β, without a training time."""
    best = {metric: by_beta[beta] for metric in METRICS if (beta := best_beta(by_beta, metric)) is not None}
    seeds = next(iter(best.values()), {})
    return {seed: {metric: values[seed][metric] for metric, values in best.items()} for seed in seeds}


def _values(result: Result, store: ResultStore, rescaled: bool) -> dict[str, float]:
    calibration = result.rescaled.calibration if rescaled and result.rescaled else result.test
    metrics = calibration.compute().metrics()
    seconds = _seconds(result, store)
    return {**{name: metrics[name] for name in METRICS}, **({} if seconds is None else {SECONDS: seconds})}


def _seconds(result: Result, store: ResultStore) -> float | None:
    """Return the training time including that of the run it starts from; None if it is unknown."""
    # With an accelerator, processor time says nothing about the cost.
    own = result.cpu_seconds if result.device == "cpu" else None
    start = result.job.requires
    if start is None or own is None:
        return own
    before = _seconds(store[start], store) if start in store else None
    return None if before is None else own + before
