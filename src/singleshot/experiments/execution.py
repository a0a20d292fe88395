"""Make one run of a grid: train it, or continue it, and measure everything a table or a figure may ask of it."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from singleshot.data import Dataset, Images, load_dataset
from singleshot.data.split import split_training
from singleshot.experiments.job import Job
from singleshot.experiments.result import Rescaled, Result
from singleshot.files import FolderNotUsableError, exclusive
from singleshot.metrics import Calibration, VarianceHistogram
from singleshot.posthoc import TemperatureScaling
from singleshot.sampling import sample
from singleshot.training.evaluation import BATCH, evaluate, quiet
from singleshot.training.metrics_log import read_records
from singleshot.training.processes import Processes
from singleshot.training.run import METRICS, Run
from singleshot.training.runner import train
from singleshot.training.watcher import Watcher

PASSES = 5
"""Stochastic passes whose variance is measured on the test images, the paper's number."""


def execute(job: Job, workspace: Path, *, data_root: Path | None = None, watcher: Watcher | None = None) -> Result:
    """Train in ``workspace/KEY``, continuing what is there, and measure the finished run.

    A run that starts from another's weights finds them in the workspace, or has them made there first: on a machine
    that shares no disk with the others, too, it gives the same result.
    """
    recipe = job.recipe
    # A worker that was thought dead may still be at it: either it ends soon, or it leaves a finished run.
    with suppress(FolderNotUsableError), exclusive(workspace / job.key, before_waiting=lambda: None):
        pass
    if job.first is not None:
        start = train(job.first.recipe, workspace / job.first.key, data_root=data_root)
        recipe = replace(recipe, start_from=str(start.folder))
    run = train(recipe, workspace / job.key, data_root=data_root, watcher=watcher)
    return measure(job, run, load_dataset(recipe.dataset, data_root=data_root, image_size=recipe.image_size))


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
    with warnings.catch_warnings():  # a network that is right on all of its training images has no finite temperature
        warnings.simplefilter("ignore")
        scaling = TemperatureScaling.fit(logits, labels)
    records = read_records(run.folder / METRICS)
    return Result(
        job=job,
        seconds=max((float(record.get("seconds") or 0) for record in records), default=0.0),
        environment=run.facts.environment,
        splits=splits,
        rescaled=Rescaled(fitted_on, scaling.temperature, _calibration(scaling(test[0]), test[1])),
        variance=_variance(model, run, dataset.test, processes),
    )


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
            passes = sample(model, normalization(images), samples=PASSES, seed=number)
            histogram.update(logits=passes.float(), labels=part.labels[start : start + BATCH])
    return histogram
