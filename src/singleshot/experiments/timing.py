"""How long runs will take on this machine, from a few steps of each kind."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch

from singleshot.data import Dataset, load_dataset
from singleshot.data.split import split_training
from singleshot.experiments.job import Job
from singleshot.models import create_model
from singleshot.training.objective import objective_of
from singleshot.training.processes import Processes
from singleshot.training.recipe import Recipe
from singleshot.training.schedule import Schedule
from singleshot.training.step import Stepper

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
            steps = schedule.steps - (schedule.loss_begins if job.start is not None else 0)
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
