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
from singleshot.training.display import Callback
from singleshot.training.inference import evaluation_mode, image_batches, logits_of
from singleshot.training.processes import select_device
from singleshot.training.run import Record, Run
from singleshot.training.trainer import train

MEASURED_PASSES = 5
"""Stochastic passes whose variance is measured on the test images, the paper's number."""


def execute(job: Job, workspace: Path, *, data_root: Path | None = None, watcher: Callback | None = None) -> Result:
    """Train in ``workspace/KEY``, continuing what is there, and measure the finished run.

    A run that starts from another's weights finds them in the workspace, or has them made there first: on a machine
    that shares no disk with the others, too, it gives the same result.
    """
    recipe = job.recipe
    folder = workspace / job.key
    if job.first is not None:
        start = workspace / job.first.key
        _wait_for(start)
        train(job.first.recipe, start, data_root=data_root, callback=watcher)
        # Once it has begun it needs the start no more: the name it had then is as good as any.
        named = Run.open(folder).recipe.start_from if Run.exists(folder) else str(start)
        recipe = replace(recipe, start_from=named)
    _wait_for(folder)
    train(recipe, folder, data_root=data_root, callback=watcher)
    run = Run.open(folder)  # which knows where it was begun: perhaps long ago, and by another version
    return measure(job, run, load_dataset(recipe.dataset, data_root=data_root, image_size=recipe.image_size))


def _wait_for(folder: Path) -> None:
    """A worker that was thought dead may still be at it: either it ends soon, or it leaves a finished run."""
    with suppress(FolderNotUsableError), exclusive(folder, before_waiting=lambda: None):
        pass


def measure(job: Job, run: Run, dataset: Dataset) -> Result:
    """The calibration of a finished run: single pass, temperature-scaled, and what its passes disagree about."""
    recipe = run.recipe
    device = select_device(recipe.device)
    model = run.load_model().to(device)
    trained, held_out = split_training(
        dataset.train.labels, validation=recipe.validation, train_images=recipe.train_images
    )
    test = logits_of(model, dataset.test, torch.arange(len(dataset.test)), run.normalization(device))
    splits = {"test": _calibration(*test)}
    fitted_on, known = "train", trained
    if len(held_out):
        fitted_on, known = "validation", held_out
    logits, labels = logits_of(model, dataset.train, known, run.normalization(device))
    if len(held_out):
        splits["validation"] = _calibration(logits, labels)
    with warnings.catch_warnings(record=True) as warned:  # of a network that is right on all of its training images
        warnings.simplefilter("always")
        scaling = TemperatureScaling.fit(logits, labels)
    records = run.records()
    here = describe_environment()
    return Result(
        job=job,
        seconds=_latest(records, "seconds"),
        cpu_seconds=_latest(records, "processor_seconds") or None,
        device=device.type,
        environment=run.info.environment,
        data=data_facts(dataset),
        splits=splits,
        rescaled=Rescaled(fitted_on, scaling.temperature, bool(warned), _calibration(scaling(test[0]), test[1])),
        variance=_variance(model, run, dataset.test, device),
        measured_in=None if _versions(here) == _versions(run.info.environment) else here,
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


def _calibration(logits: Tensor, labels: Tensor) -> Calibration:
    calibration = Calibration(bins=20)
    calibration.update(logits=logits, labels=labels)
    return calibration


def _variance(model: nn.Module, run: Run, part: Images, device: torch.device) -> VarianceHistogram | None:
    if run.recipe.noise == 0:
        return None
    histogram = VarianceHistogram(bins=20)
    batches = image_batches(part, torch.arange(len(part)), run.normalization(device))
    with evaluation_mode(model):
        for number, (images, labels) in enumerate(batches):
            histogram.update(logits=sample(model, images, samples=MEASURED_PASSES, seed=number).float(), labels=labels)
    return histogram
