"""Synthetic results of runs, for the tests of tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from singleshot.grid.job import Rescaled, Result
from singleshot.grid.store import ResultStore
from singleshot.grid.training_job import TrainingJob
from singleshot.metrics import Calibration, VarianceHistogram
from singleshot.paper.experiments import EXPERIMENTS
from singleshot.paper.methods import EPSILONS, base_recipe, job_of
from singleshot.paper.seed_means import Estimate
from singleshot.paper.tables import Row, Table, build_table
from singleshot.training.recipe import Recipe

TEMPERATURE = 2.0


def fake_result(
    job: TrainingJob, *, logits: Tensor, labels: Tensor, passes: Tensor | None = None, seconds: float = 1.0
) -> Result:
    """The result of a run with test logits (N, C), labels (N,) and stochastic passes (T, N, C).

    Where the recipe holds images out, the same logits stand for those; the temperature is always `TEMPERATURE`.
    """
    held_out = job.recipe.holds_out
    variance = None
    if passes is not None:
        variance = VarianceHistogram(bins=20)
        variance.update(logits=passes, labels=labels)
    return Result(
        job=job,
        seconds=seconds,
        cpu_seconds=seconds,
        device="cpu",
        environment={"torch": "2"},
        data={"train": 1000, "test": len(labels), "classes": logits.shape[1]},
        splits={name: calibrated(logits, labels) for name in ("test", *(["validation"] if held_out else []))},
        rescaled=Rescaled(
            "validation" if held_out else "train", TEMPERATURE, False, calibrated(logits / TEMPERATURE, labels)
        ),
        variance=variance,
    )


def calibrated(logits: Tensor, labels: Tensor) -> Calibration:
    """The calibration of these predictions."""
    calibration = Calibration(bins=20)
    calibration.update(logits=logits, labels=labels)
    return calibration


def store_of(*results: Result) -> ResultStore:
    """A store without a folder."""
    return ResultStore(Path("unused"), {result.job.key: result for result in results})


# For tables: forty examples with one confidence, whose metrics can be written out.

SEEDS = 3
BASE = base_recipe("small", dataset="cifar100", model="resnet18")
DATA = {"train": 50_000, "test": 10_000, "classes": 100}


def forty(confidence: float, right: int) -> Calibration:
    """Forty examples of two classes with one confidence and ``right`` correct predictions."""
    state = Calibration(bins=20)
    labels = (torch.arange(40) >= right).long()
    state.update(probs=torch.tensor([[confidence, 1 - confidence]], dtype=torch.float64).repeat(40, 1), labels=labels)
    return state


def expected(confidence: float, right: int) -> dict[str, float]:
    """The metrics of such examples, in closed form."""
    accuracy = right / 40
    gap = abs(confidence - accuracy)
    nll = -accuracy * np.log(confidence) - (1 - accuracy) * np.log(1 - confidence)
    brier = 2 * (accuracy * (1 - confidence) ** 2 + (1 - accuracy) * confidence**2)
    return {"accuracy": accuracy, "ece": gap, "mce": gap, "nll": float(nll), "brier": float(brier)}


def drawn(method: str, seed: int) -> tuple[float, int]:
    """Confidence and number of correct predictions of a run, different for each run."""
    rng = np.random.default_rng([*method.encode(), seed])
    return float(rng.uniform(0.55, 0.95)), int(rng.integers(22, 38))


def of_runs(method: str, metric: str, seeds: int = SEEDS) -> np.ndarray:
    """A metric of a method's runs, by seed."""
    return np.array([expected(*drawn(method, seed))[metric] for seed in range(seeds)])


def fake(
    base: Recipe,
    method: str,
    seed: int,
    *,
    cpu_seconds: float | None = -1.0,
    device: str = "cpu",
    bounded: bool = False,
    best_validation: bool = False,
) -> Result:
    """A run of a method; by default each pass takes 10 s of processor time, plus the seed."""
    confidence, right = drawn(method, seed)
    job = job_of(base, method, seed)
    held_out = job.recipe.holds_out
    splits = {"test": forty(confidence, right)}
    if held_out:
        splits["validation"] = forty(0.999, 40) if best_validation else forty(*drawn(f"{method} validation", seed))
    return Result(
        job=job,
        seconds=100.0,
        cpu_seconds=(10.0 + seed) * job.recipe.passes if cpu_seconds == -1.0 else cpu_seconds,
        device=device,
        environment={"machine": "x", "cores": 2, "revision": "abc", "singleshot": "1", "torch": "2"},
        data=dict(DATA),
        splits=splits,
        rescaled=Rescaled("validation" if held_out else "train", 1.5, bounded, forty(0.6, right)),
        variance=None,
    )


@cache
def full_store(experiment: str, seeds: int = SEEDS) -> ResultStore:
    """Every run of an experiment, including those that select the label smoothing."""
    selection = [f"held_out_smoothing_{epsilon:g}" for epsilon in EPSILONS]
    smoothing = [f"smoothing_{epsilon:g}" for epsilon in EPSILONS]
    methods = [name for name in EXPERIMENTS[experiment] if name != "smoothing"] + selection + smoothing
    return store_of(*(fake(BASE, method, seed) for method in methods for seed in range(seeds)))


@cache
def full_table(experiment: str) -> Table:
    """The table of `full_store`."""
    return build_table(experiment, BASE, SEEDS, full_store(experiment))


def row_of(table: Table, method: str) -> Row:
    """The row of this method."""
    return next(row for row in table.rows if row.method == method)


def measured(row: Row, metric: str) -> Estimate:
    """Return the estimate of a measured metric."""
    return row.measured[metric]


# For figures: logits that are more or less sharp than calibrated ones.

FIGURES = ("fig1", "fig2", "fig4", "fig5")
DRAWN = tuple(dict.fromkeys(method for figure in FIGURES for method in EXPERIMENTS[figure]))
RESNET = Recipe(dataset="digits", model="resnet18", epochs=3)
VGG = Recipe(dataset="digits", model="vgg16", epochs=3)
EXAMPLES, CLASSES = 300, 4
SHARPNESS = {  # 1 is calibrated: ci_0.01 is the oracle's choice
    "baseline": 3.0,
    "ci_1": 0.2,
    "ci_0.1": 0.5,
    "ci_0.01": 1.0,
    "ci_0.001": 1.8,
    "ci_0.0001": 2.5,
    "vwci": 1.2,
}


def predictions(base: Recipe, method: str, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, labels and stochastic passes of a run."""
    method = "vwci" if method == "vwci_T5" else method  # five passes are the default: both are the same run
    generator = torch.Generator().manual_seed(1000 * len(base.model) + 10 * DRAWN.index(method) + seed)
    normal = {"generator": generator, "dtype": torch.float64}
    true = 2 * torch.randn(EXAMPLES, CLASSES, **normal)  # type: ignore[call-overload]
    labels = torch.multinomial(true.softmax(1), 1, generator=generator).squeeze(1)
    noise = torch.randn(5, EXAMPLES, CLASSES, **normal)  # type: ignore[call-overload]
    return SHARPNESS.get(method, 1.5) * true, labels, true + noise


def drawn_store(
    bases: Sequence[Recipe] = (RESNET, VGG), methods: Sequence[str] = DRAWN, seeds: int = SEEDS
) -> ResultStore:
    """A new store with these runs."""
    return store_of(*(_drawn_run(base, method, seed) for base in bases for method in methods for seed in range(seeds)))


@cache
def _drawn_run(base: Recipe, method: str, seed: int) -> Result:
    logits, labels, passes = predictions(base, method, seed)
    return fake_result(job_of(base, method, seed), logits=logits, labels=labels, passes=passes)


def without(store: ResultStore, base: Recipe, method: str, *seeds: int) -> None:
    """Remove runs."""
    for seed in seeds:
        del store.results[job_of(base, method, seed).key]
