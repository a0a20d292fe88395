"""The progress of a grid, read from disk by any process, and estimates of its training time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Literal

import torch

from singleshot.common.files import is_held
from singleshot.common.splits import split_training
from singleshot.data import Dataset, load_dataset
from singleshot.grid.job import Job
from singleshot.grid.store import ResultStore
from singleshot.grid.training_job import TrainingJob
from singleshot.training.distributed import Processes
from singleshot.training.recipe import Recipe
from singleshot.training.run import Run, RunInfo
from singleshot.training.schedule import Schedule
from singleshot.training.step import Stepper, initial_strength

WARM_UP_STEPS, TIMED_STEPS = 2, 5
COST_FIELDS = (
    "dataset",
    "image_size",
    "model",
    "width",
    "noise",
    "batch_size",
    "precision",
    "passes",
    "gradient_passes",
)
"""What the cost of a step depends on: not the loss, but the number of passes."""

State = Literal["done", "running", "stopped", "waiting"]


def progress_of(job: Job, store: ResultStore, workspace: Path) -> tuple[State, float]:
    """Return the state of a job and the finished share of its training.

    Runs on machines with other disks appear as waiting.
    """
    if job in store:
        return "done", 1.0
    folder = workspace / job.key
    try:
        run = Run.open(folder)
        images = min(run.info.images[0], run.recipe.train_images or run.info.images[0])
        schedule = Schedule(run.recipe, images - round(run.recipe.validation * images))
        steps = max((record["step"] for record in run.records()), default=schedule.first_step)
        share = (steps - schedule.first_step) / max(schedule.steps - schedule.first_step, 1)
    except (ValueError, OSError, ArithmeticError):  # a killed process may leave an incomplete folder
        return "waiting", 0.0
    return "running" if is_held(folder) else "stopped", share


def estimate_seconds(jobs: Sequence[TrainingJob], *, data_root: Path | None = None) -> dict[str, float]:
    """Return the estimated training time of each job, by key, in its own process with one thread."""
    torch.set_num_threads(1)
    load = cache(load_dataset)
    timed: dict[tuple[Any, ...], float] = {}

    def timed_once(recipe: Recipe, dataset: Dataset, batch: int) -> float:
        cost = tuple(getattr(recipe, name) for name in COST_FIELDS)
        if cost not in timed:
            timed[cost] = _seconds_per_step(recipe, dataset, batch)
        return timed[cost]

    estimates = {}
    for job in jobs:
        recipe = job.recipe
        size, classes = recipe.image_size, recipe.classes
        dataset = load(recipe.dataset, data_root=data_root, image_size=size, classes=classes)
        trained, _ = split_training(
            dataset.train.labels, validation=recipe.validation, train_images=recipe.train_images
        )
        schedule = Schedule(recipe, len(trained))
        before_loss = 0 if job.start is not None else schedule.first_loss_step
        with_loss = schedule.steps - schedule.first_loss_step
        seconds = with_loss * timed_once(recipe, dataset, schedule.batch)
        if before_loss > 0:
            plain = replace(recipe, loss="cross_entropy", strength=1.0, samples=1, gradient_passes=None)
            seconds += before_loss * timed_once(plain, dataset, schedule.batch)
        estimates[job.key] = seconds
    return estimates


def _seconds_per_step(recipe: Recipe, dataset: Dataset, batch: int) -> float:
    processes = Processes.from_environment(recipe.device)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        stepper = Stepper(Run(Path(), recipe, RunInfo.of(dataset, {})).new_model(), recipe, processes)
        images = torch.randn(batch, dataset.channels, recipe.image_size, recipe.image_size, device=processes.device)
        labels = torch.randint(0, len(dataset.class_names), (batch,), device=processes.device)
        strength, seconds = initial_strength(recipe), []
        for _ in range(WARM_UP_STEPS + TIMED_STEPS):
            started = time.perf_counter()
            stepper.advance(images, labels, learning_rate=1e-3, strength=strength)  # reads the loss, which synchronises
            seconds.append(time.perf_counter() - started)
    return median(seconds[WARM_UP_STEPS:])
