"""Make one run of a grid: train it, or continue it, and measure everything a table or a figure may ask of it."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from singleshot.common.environment import HARDWARE, describe_environment
from singleshot.common.files import FolderNotUsableError, exclusive
from singleshot.common.splits import split_training
from singleshot.data import Dataset, Images, load_dataset
from singleshot.grid.job import Job
from singleshot.grid.result import Rescaled, Result
from singleshot.metrics import Calibration, VarianceHistogram
from singleshot.posthoc import TemperatureScaling
from singleshot.sampling import sample
from singleshot.training.display import Watcher
from singleshot.training.inference import BATCH, evaluate, quiet
from singleshot.training.metrics_log import Record, read_records
from singleshot.training.processes import Processes
from singleshot.training.run import METRICS, Run
from singleshot.training.trainer import train

MEASURED_PASSES = 5
"""Stochastic passes whose variance is measured on the test images, the paper's number."""


def execute(job: Job, workspace: Path, *, data_root: Path | None = None, watcher: Watcher | None = None) -> Result:
    """Train in ``workspace/KEY``, continuing what is there, and measure the finished run.

    A run that starts from another's weights finds them in the workspace, or has them made there first: on a machine
    that shares no disk with the others, too, it gives the same result.
    """
    recipe = job.recipe
    folder = workspace / job.key
    if job.first is not None:
        start = workspace / job.first.key
        _wait_for(start)
        train(job.first.recipe, start, data_root=data_root, watcher=watcher)
        # Once it has begun it needs the start no more: the name it had then is as good as any.
        named = Run.open(folder).recipe.start_from if Run.is_there(folder) else str(start)
        recipe = replace(recipe, start_from=named)
    _wait_for(folder)
    train(recipe, folder, data_root=data_root, watcher=watcher)
    run = Run.open(folder)  # which knows where it was begun: perhaps long ago, and by another version
    return measure(job, run, load_dataset(recipe.dataset, data_root=data_root, image_size=recipe.image_size))


def _wait_for(folder: Path) -> None:
    """A worker that was thought dead may still be at it: either it ends soon, or it leaves a finished run."""
    with suppress(FolderNotUsableError), exclusive(folder, before_waiting=lambda: None):
        pass


def measure(job: Job, run: Run, dataset: Dataset) -> Result:
    """The calibration of a finished run: single pass, temperature-scaled, and what its passes disagree about."""
    recipe = run.recipe
    processes = Processes(device=Processes.from_environment(recipe.device).device)
    model = run.load_model().to(processes.device)
    trained, held_out = split_training(
        dataset.train.labels, validation=recipe.validation, train_images=recipe.train_images
    )
    test = _logits(model, run, dataset.test, torch.arange(len(dataset.test)), processes)
    splits = {"test": _calibration(*test)}
    fitted_on, known = "train", trained
    if len(held_out):
        fitted_on, known = "validation", held_out
    logits, labels = _logits(model, run, dataset.train, known, processes)
    if len(held_out):
        splits["validation"] = _calibration(logits, labels)
    with warnings.catch_warnings(record=True) as warned:  # of a network that is right on all of its training images
        warnings.simplefilter("always")
        scaling = TemperatureScaling.fit(logits, labels)
    records = read_records(run.folder / METRICS)
    here = describe_environment()
    return Result(
        job=job,
        seconds=_latest(records, "seconds"),
        cpu_seconds=_latest(records, "processor_seconds") or None,
        device=processes.device.type,
        environment=run.facts.environment,
        data=data_facts(dataset),
        splits=splits,
        rescaled=Rescaled(fitted_on, scaling.temperature, bool(warned), _calibration(scaling(test[0]), test[1])),
        variance=_variance(model, run, dataset.test, processes),
        measured_in=None if _versions(here) == _versions(run.facts.environment) else here,
    )


def data_facts(dataset: Dataset) -> dict[str, Any]:
    """What tells the images of one data set from those of another with the same name."""
    return {
        "train": len(dataset.train),
        "test": len(dataset.test),
        "classes": len(dataset.class_names),
        "channels": dataset.channels,
        "mean": list(dataset.mean),
        "std": list(dataset.std),
    }


def _versions(environment: dict[str, Any]) -> dict[str, Any]:
    """Of an environment, what decides a result: the machine is no part of it."""
    return {name: value for name, value in environment.items() if name not in HARDWARE}


def _latest(records: list[Record], name: str) -> float:
    return max((float(record.get(name) or 0) for record in records), default=0.0)


def _logits(model: nn.Module, run: Run, part: Images, positions: Tensor, processes: Processes) -> tuple[Tensor, Tensor]:
    """The single-pass logits of these images and their labels."""
    kept: list[tuple[Tensor, Tensor]] = []
    evaluate(
        model,
        part,
        positions,
        run.normalization(processes.device),
        processes,
        on_logits=lambda logits, labels: kept.append((logits.cpu(), labels)),
    )
    logits, labels = zip(*kept, strict=True)
    return torch.cat(logits), torch.cat(labels)


def _calibration(logits: Tensor, labels: Tensor) -> Calibration:
    calibration = Calibration(bins=20)
    calibration.update(logits=logits, labels=labels)
    return calibration


def _variance(model: nn.Module, run: Run, part: Images, processes: Processes) -> VarianceHistogram | None:
    if run.recipe.noise == 0:
        return None
    histogram = VarianceHistogram(bins=20)
    normalization = run.normalization(processes.device)
    with quiet(model):
        for number, start in enumerate(range(0, len(part), BATCH)):
            images = part.images[start : start + BATCH].to(processes.device)
            passes = sample(model, normalization(images), samples=MEASURED_PASSES, seed=number)
            histogram.update(logits=passes.float(), labels=part.labels[start : start + BATCH])
    return histogram
