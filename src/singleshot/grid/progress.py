"""The progress of a grid, read from disk by any process, and estimates of its training time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
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
from singleshot.models import create_model
from singleshot.training.distributed import Processes
from singleshot.training.recipe import Recipe
from singleshot.training.run import Run
from singleshot.training.schedule import Schedule
from singleshot.training.step import Stepper

WARM_UP_STEPS, TIMED_STEPS = 2, 5
COST_FIELDS = ("dataset", "image_size", "model", "width", "noise", "batch_size", "precision", "passes")
"""What the cost of a step depends on: not the loss, but the number of passes."""


@dataclass(frozen=True)
class JobProgress:
    """The state of one job; ``share`` is the finished share of its training."""

    job: Job
    state: Literal["done", "running", "stopped", "waiting"]
    share: float

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {"key": self.job.key, "title": self.job.title, "state": self.state, "share": self.share}


def progress_of(job: Job, store: ResultStore, workspace: Path) -> JobProgress:
    """Return the state of a job. Runs on machines with other disks appear as waiting."""
    if job in store:
        return JobProgress(job, "done", 1.0)
    folder = workspace / job.key
    share = _share(folder)
    if share is None:
        return JobProgress(job, "waiting", 0.0)
    return JobProgress(job, "running" if is_held(folder) else "stopped", share)


def _share(folder: Path) -> float | None:
    """Return the share of finished steps; None if there is no run."""
    try:
        run = Run.open(folder)
        records = run.records()
        images = min(run.info.images[0], run.recipe.train_images or run.info.images[0])
        schedule = Schedule(run.recipe, images - round(run.recipe.validation * images))
        steps = max((record["step"] for record in records), default=schedule.first_step)
        return (steps - schedule.first_step) / max(schedule.steps - schedule.first_step, 1)
    except (ValueError, OSError, ArithmeticError):  # a killed process may leave an incomplete folder
        return None


def estimate_seconds(jobs: Sequence[TrainingJob], *, data_root: Path | None = None) -> dict[str, float]:
    """Return the estimated training time of each job, by key, in its own process with one thread."""
    datasets: dict[tuple[str, int], Dataset] = {}
    seconds_per_step: dict[tuple[Any, ...], float] = {}
    estimates = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for job in jobs:
            recipe = job.recipe
            source = (recipe.dataset, recipe.image_size)
            if source not in datasets:
                datasets[source] = load_dataset(recipe.dataset, data_root=data_root, image_size=recipe.image_size)
            dataset = datasets[source]
            trained, _ = split_training(
                dataset.train.labels, validation=recipe.validation, train_images=recipe.train_images
            )
            schedule = Schedule(recipe, len(trained))
            cost = tuple(getattr(recipe, name) for name in COST_FIELDS)
            if cost not in seconds_per_step:
                seconds_per_step[cost] = _seconds_per_step(recipe, dataset, schedule.batch)
            steps = schedule.steps - (schedule.first_loss_step if job.start is not None else 0)
            estimates[job.key] = steps * seconds_per_step[cost]
    finally:
        torch.set_num_threads(threads)
    return estimates


def _seconds_per_step(recipe: Recipe, dataset: Dataset, batch: int) -> float:
    processes = Processes.from_environment(recipe.device)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        classes = len(dataset.class_names)
        model = create_model(
            recipe.model, num_classes=classes, in_channels=dataset.channels, width=recipe.width, noise=recipe.noise
        )
        stepper = Stepper(model, recipe, processes)
        images = torch.randn(batch, dataset.channels, recipe.image_size, recipe.image_size, device=processes.device)
        labels = torch.randint(0, classes, (batch,), device=processes.device)
        seconds = []
        for _ in range(WARM_UP_STEPS + TIMED_STEPS):
            started = time.perf_counter()
            stepper.advance(images, labels, learning_rate=1e-3)  # reads the loss, which synchronises
            seconds.append(time.perf_counter() - started)
    return median(seconds[WARM_UP_STEPS:])
