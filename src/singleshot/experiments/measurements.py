"""What the runs of a method measured, seed by seed, and by how much two methods differ on the seeds both have."""

from __future__ import annotations

from singleshot.experiments.estimate import Estimate
from singleshot.experiments.job import job_of
from singleshot.experiments.plan import CHOSEN_SMOOTHING, chosen_smoothing
from singleshot.experiments.published import METRICS
from singleshot.experiments.result import Result
from singleshot.experiments.store import ResultStore
from singleshot.training.recipe import Recipe

SECONDS = "train_seconds"
TEMPERATURE_SCALING = {"ts_case1": ("baseline", "train"), "ts_case2": ("held_out_baseline", "validation")}
"""Rows that train nothing new: whose runs they rescale, and on which images the temperature must have been fitted."""

Measured = dict[int, dict[str, float]]
"""By seed: every metric on the test images, and the seconds of training."""


def values_by_seed(base: Recipe, method: str, seeds: int, store: ResultStore) -> Measured:
    """What is there of a method's first ``seeds`` runs.

    ``method`` is a name of `methods.METHODS`, ``ts_case1`` or ``ts_case2`` for temperature scaling, or ``smoothing``
    for the label smoothing that held-out images chose.
    """
    trained, fitted_on = TEMPERATURE_SCALING.get(method, (method, None))
    if trained == CHOSEN_SMOOTHING:
        chosen = chosen_smoothing(base, store)
        if chosen is None:
            return {}
        trained = chosen
    keys = {seed: job_of(base, trained, seed).key for seed in range(seeds)}
    results = {seed: store.results[key] for seed, key in keys.items() if key in store.results}
    return {
        seed: _values(result, store, rescaled=fitted_on is not None)
        for seed, result in results.items()
        if fitted_on in (None, result.rescaled.fitted_on)
    }


def versus(base: Recipe, method: str, against: str, seeds: int, store: ResultStore) -> dict[str, Estimate]:
    """For each metric, how much higher it is with ``method`` than ``against``: the mean difference of their runs.

    Runs with the same seed share their images and first weights, so that what these do to both cancels. Only seeds
    that both have count, and there is no metric without any. `Estimate.interval` says what chance allows.
    """
    first, second = (values_by_seed(base, name, seeds, store) for name in (method, against))
    common = sorted(first.keys() & second.keys())
    if not common:
        return {}
    return {metric: Estimate.of([first[seed][metric] - second[seed][metric] for seed in common]) for metric in METRICS}


def _values(result: Result, store: ResultStore, *, rescaled: bool) -> dict[str, float]:
    calibration = result.rescaled.calibration if rescaled else result.test
    metrics = calibration.compute().metrics()
    return {**{name: metrics[name] for name in METRICS}, **_seconds(result, store)}


def _seconds(result: Result, store: ResultStore) -> dict[str, float]:
    """The training time, with that of the run it starts from; unknown while that one is missing."""
    first = result.job.first
    if first is None:
        return {SECONDS: result.seconds}
    return {SECONDS: result.seconds + store[first].seconds} if first in store else {}
