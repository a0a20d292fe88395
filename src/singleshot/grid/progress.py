"""How far a grid is, read from what its runs have left on disk, so that any process can look while another works."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Literal

import torch

from singleshot.common.files import is_held
from singleshot.common.splits import split_training
from singleshot.data import Dataset, load_dataset
from singleshot.grid.job import Job
from singleshot.grid.store import ResultStore
from singleshot.models import create_model
from singleshot.training.processes import Processes
from singleshot.training.recipe import Recipe
from singleshot.training.run import Run
from singleshot.training.schedule import Schedule
from singleshot.training.step import Stepper, objective_of

State = Literal["done", "running", "stopped", "waiting"]


@dataclass(frozen=True)
class JobProgress:
    """Where one run stands; ``share`` is how much of its training is done."""

    job: Job
    state: State
    share: float

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {"key": self.job.key, "title": self.job.title, "state": self.state, "share": self.share}


def progress_of(jobs: Sequence[Job], store: ResultStore, workspace: Path) -> list[JobProgress]:
    """The state of every job, in their order. Runs on machines that share no disk with this one seem to be waiting."""
    return [_progress(job, store, workspace / job.key) for job in jobs]


def _progress(job: Job, store: ResultStore, folder: Path) -> JobProgress:
    if job in store:
        return JobProgress(job, "done", 1.0)
    share = _share(folder)
    if share is None:
        return JobProgress(job, "waiting", 0.0)
    return JobProgress(job, "running" if is_held(folder) else "stopped", share)


def _share(folder: Path) -> float | None:
    """How much of the steps of a run is done; None where there is no run yet."""
    try:
        run = Run.open(folder)
        records = run.records()
        images = min(run.info.images[0], run.recipe.train_images or run.info.images[0])
        schedule = Schedule(run.recipe, images - round(run.recipe.validation * images))
        steps = max((record["step"] for record in records), default=schedule.first_step)
        return (steps - schedule.first_step) / max(schedule.steps - schedule.first_step, 1)
    except (ValueError, OSError, ArithmeticError):  # a folder that a kill has left half made
        return None


WARM_UP, TIMED = 2, 5
"""Steps that are not timed, and steps that are: a network's first steps are slower than all others."""


def estimated_seconds(jobs: Sequence[Job], *, data_root: Path | None = None) -> dict[str, float]:
    """Seconds of training for each job, by its key, in a process of its own with one thread.

    Runs that differ in nothing that costs time are tried once: the passes of a step cost time, its loss does not.
    """
    datasets: dict[tuple[str, int], Dataset] = {}
    per_step: dict[str, float] = {}
    found = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for job in jobs:
            recipe = job.recipe
            place = (recipe.dataset, recipe.image_size)
            if place not in datasets:
                datasets[place] = load_dataset(recipe.dataset, data_root=data_root, image_size=recipe.image_size)
            dataset = datasets[place]
            trained, _ = split_training(
                dataset.train.labels, validation=recipe.validation, train_images=recipe.train_images
            )
            schedule = Schedule(recipe, len(trained))
            kind = Job(_costs(recipe)).key
            if kind not in per_step:
                per_step[kind] = _seconds_per_step(recipe, dataset, schedule.batch)
            steps = schedule.steps - (schedule.first_loss_step if job.start is not None else 0)
            found[job.key] = steps * per_step[kind]
    finally:
        torch.set_num_threads(threads)
    return found


def _costs(recipe: Recipe) -> Recipe:
    """The recipe with everything left out that a step's time does not depend on."""
    fields = ("dataset", "image_size", "model", "width", "noise", "batch_size", "precision")
    plain = Recipe(loss="cross_entropy", samples=recipe.passes)
    return replace(plain, **{name: getattr(recipe, name) for name in fields}).resolved()


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
        objective = objective_of(recipe)
        seconds = []
        for _ in range(WARM_UP + TIMED):
            started = time.perf_counter()
            stepper.advance(images, labels, objective, learning_rate=1e-3)  # reads the loss, so it waits for a device
            seconds.append(time.perf_counter() - started)
    return median(seconds[WARM_UP:])
