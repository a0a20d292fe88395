"""A number measured with several seeds: its mean, and how far chance may have moved it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TypeVar

from singleshot.grid.job import job_of
from singleshot.grid.result import Result
from singleshot.grid.store import ResultStore
from singleshot.paper.exhibits import CHOSEN_SMOOTHING, CI, chosen_smoothing
from singleshot.paper.published import METRICS
from singleshot.training.recipe import Recipe


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its standard error; one seed has no standard error."""

    mean: float
    standard_error: float | None
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Mean and standard error, the sample's standard deviation over √n.

        >>> print(Estimate.of([0.1, 0.2, 0.3]))
        0.200 ± 0.058
        """
        deviation = sample_deviation(values)
        error = None if deviation is None else deviation / math.sqrt(len(values))
        return cls(fmean(values), error, len(values))

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """Student's interval around the mean, which holds for few seeds, too; one seed has none.

        >>> low, high = Estimate.of([0.1, 0.2, 0.3]).interval()
        >>> round(low, 3), round(high, 3)
        (-0.048, 0.448)
        """
        if self.standard_error is None:
            return None
        from scipy.special import stdtrit

        reach = float(stdtrit(self.seeds - 1, (1 + level) / 2)) * self.standard_error
        return self.mean - reach, self.mean + reach

    def __str__(self) -> str:
        return f"{self.mean:.3f}" if self.standard_error is None else f"{self.mean:.3f} ± {self.standard_error:.3f}"


def sample_deviation(values: Sequence[float]) -> float | None:
    """The sample's standard deviation; one value has none, nor have values of which one is infinite."""
    return stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None


def seeds_text(found: int, wanted: int) -> str:
    """How many seeds are behind a number, and how many should be if that is not the same.

    >>> seeds_text(3, 3), seeds_text(2, 3)
    ('3', '2 of 3')
    """
    return str(found) if found == wanted else f"{found} of {wanted}"


SECONDS = "cpu_seconds"
OVER_BETA = "ci"
"""CI of every strength together: the mean over β."""
ORACLE = "ci_oracle"
"""CI of the best strength, found by looking at the test images."""
BETTER = {metric: max if metric == "accuracy" else min for metric in METRICS}
"""Which of several values is the best one."""
TEMPERATURE_SCALING = {"ts_case1": "baseline", "ts_case2": "held_out_baseline"}
"""Rows that train nothing new, and whose runs they rescale: by all of their images, or by those that were held out."""

Measured = dict[int, dict[str, float]]
"""By seed: every metric on the test images, and the processor seconds of training where they are known."""
T = TypeVar("T")


def values_by_seed(base: Recipe, method: str, seeds: int, store: ResultStore) -> Measured:
    """What is there of a method's first ``seeds`` runs.

    ``method`` is a name of `methods.METHODS`, ``ts_case1`` or ``ts_case2`` for temperature scaling, ``smoothing`` for
    the label smoothing that held-out images chose, or ``ci`` or ``ci_oracle`` for what the strengths of CI say
    together, on the seeds that all of them have.
    """
    if method == OVER_BETA:
        return _over_beta(values_by_beta(base, seeds, store))
    if method == ORACLE:
        return _oracle(values_by_beta(base, seeds, store))
    rescaled = method in TEMPERATURE_SCALING
    return {seed: _values(run, store, rescaled) for seed, run in runs_by_seed(base, method, seeds, store).items()}


def runs_by_seed(base: Recipe, method: str, seeds: int, store: ResultStore) -> dict[int, Result]:
    """The finished runs behind a method."""
    trained = chosen_smoothing(base, store) if method == CHOSEN_SMOOTHING else TEMPERATURE_SCALING.get(method, method)
    if trained is None:
        return {}
    jobs = {seed: job_of(base, trained, seed) for seed in range(seeds)}
    return {seed: store[job] for seed, job in jobs.items() if job in store}


def values_by_beta(base: Recipe, seeds: int, store: ResultStore) -> dict[str, Measured]:
    """Of each strength of CI that has a run: what it measured on the seeds that all of these have."""
    found = {beta: values_by_seed(base, beta, seeds, store) for beta in CI}
    return on_common_seeds({beta: values for beta, values in found.items() if values})


def on_common_seeds(by_method: Mapping[str, Mapping[int, T]]) -> dict[str, dict[int, T]]:
    """What all methods have of the same seeds: no one looks better for a seed that only others found hard.

    >>> on_common_seeds({"ci_1": {0: "a", 1: "b"}, "ci_0.1": {1: "c"}})
    {'ci_1': {1: 'b'}, 'ci_0.1': {1: 'c'}}
    """
    common = sorted(set.intersection(*map(set, by_method.values()))) if by_method else []
    return {method: {seed: values[seed] for seed in common} for method, values in by_method.items()}


def best_beta(by_beta: Mapping[str, Measured], metric: str) -> str | None:
    """The strength with the best mean over seeds, all of which every strength has; None without any."""
    means = {beta: fmean(run[metric] for run in values.values()) for beta, values in by_beta.items() if values}
    return BETTER[metric](means, key=means.__getitem__, default=None)


def versus(base: Recipe, method: str, against: str, seeds: int, store: ResultStore) -> dict[str, Estimate]:
    """For each metric, how much higher it is with ``method`` than ``against``: the mean difference of their runs.

    Runs with the same seed share their images and first weights, so that what these do to both cancels. Only seeds
    that both have count, and there is no metric without any. `Estimate.interval` says what chance allows.
    """
    pairs = _pairs(base, method, against, seeds, store)
    return {metric: Estimate.of([one[metric] - other[metric] for one, other in pairs]) for metric in METRICS if pairs}


def time_ratio(base: Recipe, method: str, seeds: int, store: ResultStore) -> Estimate | None:
    """How many times the baseline's processor time a run takes, on the seeds of which both are known."""
    pairs = _pairs(base, method, "baseline", seeds, store)
    ratios = [one[SECONDS] / other[SECONDS] for one, other in pairs if SECONDS in one and SECONDS in other]
    return Estimate.of(ratios) if ratios else None


def _pairs(
    base: Recipe, method: str, against: str, seeds: int, store: ResultStore
) -> list[tuple[dict[str, float], dict[str, float]]]:
    one, other = (values_by_seed(base, name, seeds, store) for name in (method, against))
    return [(one[seed], other[seed]) for seed in sorted(one.keys() & other.keys())]


def _over_beta(by_beta: Mapping[str, Measured]) -> Measured:
    """Of each seed the mean over β; of the time, too, if it is known of all."""
    seeds = next(iter(by_beta.values()), {})
    by_seed = {seed: [values[seed] for values in by_beta.values()] for seed in seeds}
    return {
        seed: {name: fmean(run[name] for run in runs) for name in runs[0] if all(name in run for run in runs)}
        for seed, runs in by_seed.items()
    }


def _oracle(by_beta: Mapping[str, Measured]) -> Measured:
    """Of each metric what its best β measured; it has no training time, since it needs every run."""
    best = {metric: by_beta[beta] for metric in METRICS if (beta := best_beta(by_beta, metric)) is not None}
    seeds = next(iter(best.values()), {})
    return {seed: {metric: values[seed][metric] for metric, values in best.items()} for seed in seeds}


def _values(result: Result, store: ResultStore, rescaled: bool) -> dict[str, float]:
    calibration = result.rescaled.calibration if rescaled else result.test
    metrics = calibration.compute().metrics()
    seconds = _seconds(result, store)
    return {**{name: metrics[name] for name in METRICS}, **({} if seconds is None else {SECONDS: seconds})}


def _seconds(result: Result, store: ResultStore) -> float | None:
    """The training time, with that of the run it starts from; unknown while that one is missing."""
    # Where another device computes, the processor only waits, and its time says nothing.
    own = result.cpu_seconds if result.device == "cpu" else None
    first = result.job.first
    if first is None or own is None:
        return own
    before = _seconds(store[first], store) if first in store else None
    return None if before is None else own + before
