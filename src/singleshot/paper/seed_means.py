"""The finished runs with one network: means over seeds, paired differences and relative training times."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.special import stdtrit

from singleshot.grid.job import Job, Result
from singleshot.grid.store import ResultStore
from singleshot.grid.training_job import dataset_name
from singleshot.metrics import Calibration, CalibrationResult
from singleshot.paper.experiments import trained_method
from singleshot.paper.methods import CI, TEMPERATURE_SCALING, job_of
from singleshot.paper.published import BETTER, CI_MEAN, CI_ORACLE, METRICS
from singleshot.training.recipe import Recipe

SECONDS = "cpu_seconds"

Measured = dict[int, dict[str, float]]
"""By seed: every metric on the test images, and `SECONDS` if it is known."""


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

    def interval(self) -> tuple[float, float] | None:
        """Return Student's 95 % interval of the mean; None for one seed."""
        if self.standard_error is None:
            return None
        width = float(stdtrit(self.seeds - 1, 0.975)) * self.standard_error
        return self.mean - width, self.mean + width

    def __str__(self) -> str:
        return f"{self.mean:.3f}" if self.standard_error is None else f"{self.mean:.3f} ± {self.standard_error:.3f}"


def sample_deviation(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation; None for one value or if a value is infinite."""
    return stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None


def format_seeds(found: int, wanted: int) -> str:
    """Return the number of finished seeds, and the wanted number if it differs.

    >>> format_seeds(3, 3), format_seeds(2, 3)
    ('3', '2 of 3')
    """
    return str(found) if found == wanted else f"{found} of {wanted}"


def pool(results: Iterable[Result]) -> CalibrationResult:
    """Return the calibration of the test predictions of several runs together."""
    pooled = Calibration(bins=20)
    for result in results:
        pooled.merge(result.test)
    return pooled.compute()


@dataclass(frozen=True)
class Runs:
    """The finished runs with one base recipe and the first ``seeds`` seeds.

    A method is a name of `methods.METHODS`, ``ts_case1`` or ``ts_case2`` for temperature scaling, or ``smoothing`` for
    the label smoothing that held-out images select. ``ci`` and ``ci_oracle`` summarize CI over β on the seeds that all
    values of β have. The runs of ``ci_oracle`` are those with the lowest mean ECE.
    """

    base: Recipe
    seeds: int
    store: ResultStore

    @property
    def dataset(self) -> str:
        """Name of the data set, without the path of a folder."""
        return dataset_name(self.base.dataset)

    @property
    def name(self) -> str:
        """Network and data set."""
        return f"{self.base.model} on {self.dataset}"

    def results(self, method: str) -> dict[int, Result]:
        """Return the finished runs of a method by seed."""
        if method == CI_ORACLE:
            best = self.best_ci()
            return {} if best is None else {seed: self.results(best)[seed] for seed in self.values_by_beta()[best]}
        trained = trained_method(TEMPERATURE_SCALING.get(method, method), self.base, self.store)
        if trained is None:
            return {}
        jobs = {seed: job_of(self.base, trained, seed) for seed in range(self.seeds)}
        return {seed: self.store[job] for seed, job in jobs.items() if job in self.store}

    def values(self, method: str) -> Measured:
        """Return the measured values of a method by seed."""
        if method == CI_MEAN:
            return _mean_over_beta(self.values_by_beta())
        if method == CI_ORACLE:
            return _best_over_beta(self.values_by_beta())
        measured = {}
        for seed, result in self.results(method).items():
            rescaled = result.rescaled if method in TEMPERATURE_SCALING else None
            metrics = (rescaled.calibration if rescaled else result.test).compute().metrics()
            measured[seed] = {name: metrics[name] for name in METRICS}
            seconds = self._seconds(result.job)
            if seconds is not None:
                measured[seed][SECONDS] = seconds
        return measured

    def values_by_beta(self) -> dict[str, Measured]:
        """Return the values of each method of CI that has runs, on the seeds that all of them have."""
        found = {beta: values for beta in CI if (values := self.values(beta))}
        common = set(range(self.seeds)).intersection(*found.values())
        return {beta: {seed: values[seed] for seed in sorted(common)} for beta, values in found.items()}

    def best_ci(self) -> str | None:
        """Return the method of CI with the lowest mean ECE; None without a common seed."""
        return _best_beta(self.values_by_beta(), "ece")

    def estimates(self, method: str) -> dict[str, Estimate]:
        """Return the mean of each metric; empty without runs."""
        return _estimates(self.values(method).values())

    def differences(self, method: str, against: str) -> dict[str, Estimate]:
        """Return the mean difference ``method`` − ``against`` of each metric over common seeds; empty without any.

        Runs with the same seed share their images and initial weights, whose effect cancels.
        """
        pairs = self._pairs(method, against)
        return _estimates([{metric: one[metric] - other[metric] for metric in METRICS} for one, other in pairs])

    def time_ratio(self, method: str) -> Estimate | None:
        """Return the processor time of training relative to the baseline, over the seeds for which both are known."""
        pairs = self._pairs(method, "baseline")
        ratios = [one[SECONDS] / other[SECONDS] for one, other in pairs if SECONDS in one and SECONDS in other]
        return Estimate.of(ratios) if ratios else None

    def _pairs(self, method: str, against: str) -> list[tuple[dict[str, float], dict[str, float]]]:
        one, other = self.values(method), self.values(against)
        return [(one[seed], other[seed]) for seed in sorted(one.keys() & other.keys())]

    def _seconds(self, job: Job) -> float | None:
        """Return the training time including that of the run it starts from; None if it is unknown."""
        result = self.store.results.get(job.key)
        # With an accelerator, processor time does not measure the cost.
        if result is None or result.cpu_seconds is None or result.device != "cpu":
            return None
        before = 0.0 if job.requires is None else self._seconds(job.requires)
        return None if before is None else result.cpu_seconds + before


def _best_beta(by_beta: Mapping[str, Measured], metric: str) -> str | None:
    """Return the method of CI with the best mean over seeds."""
    means = {beta: fmean(run[metric] for run in values.values()) for beta, values in by_beta.items() if values}
    return BETTER[metric](means, key=means.__getitem__, default=None)


def _estimates(values: Collection[Mapping[str, float]]) -> dict[str, Estimate]:
    return {metric: Estimate.of([one[metric] for one in values]) for metric in METRICS} if values else {}


def _mean_over_beta(by_beta: Mapping[str, Measured]) -> Measured:
    """Return the mean over β for each seed, including the training time if all have it."""
    runs_by_seed = {seed: [values[seed] for values in by_beta.values()] for seed in next(iter(by_beta.values()), {})}
    return {
        seed: {name: fmean(run[name] for run in runs) for name in runs[0] if all(name in run for run in runs)}
        for seed, runs in runs_by_seed.items()
    }


def _best_over_beta(by_beta: Mapping[str, Measured]) -> Measured:
    """Return each metric of its best β, without a training time."""
    best = {metric: by_beta[beta] for metric in METRICS if (beta := _best_beta(by_beta, metric)) is not None}
    seeds = next(iter(best.values()), {})
    return {seed: {metric: values[seed][metric] for metric, values in best.items()} for seed in seeds}
