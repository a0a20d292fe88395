"""Train from a recipe into a folder: a new run, or the rest of one that was stopped."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from singleshot.data import Dataset, load_dataset
from singleshot.data.split import split_training
from singleshot.environment import describe_environment
from singleshot.files import FolderNotUsableError, exclusive
from singleshot.training.loop import Loop
from singleshot.training.metrics_log import MetricsLog
from singleshot.training.processes import Processes, process_group
from singleshot.training.progress import Progress
from singleshot.training.recipe import Recipe
from singleshot.training.resume import restore
from singleshot.training.run import METRICS, Facts, Run, recipe_differences
from singleshot.training.schedule import Schedule, derived_seed
from singleshot.training.step import Stepper
from singleshot.training.watcher import Watcher


def train(
    recipe: Recipe,
    output: Path | str,
    *,
    data_root: Path | None = None,
    skip_unreadable: bool = False,
    checkpoint_seconds: float = 300.0,
    tensorboard: bool = False,
    watcher: Watcher | None = None,
) -> Run:
    """Do what the recipe says in the folder ``output``, and return the finished run.

    A folder that holds the same run unfinished is continued, to the very weights it would have had without the stop. A
    folder with another run is an error. Under ``torchrun`` every process calls this, and the first one writes.

    Args:
        recipe: what to do; :func:`singleshot.training.preset` has recipes to start from.
        output: folder of the run.
        data_root: where the data sets are; None: $SINGLESHOT_DATA, or the user's cache.
        skip_unreadable: leave out images that cannot be read instead of stopping.
        checkpoint_seconds: save at least this often, besides each best epoch and the end.
        tensorboard: record for TensorBoard as well, in ``output/tensorboard``.
        watcher: hears of every step and evaluation.
    """
    recipe, folder = recipe.resolved(), Path(output)
    processes = Processes.from_environment(recipe.device)
    cuda = [processes.device] if processes.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        # Whatever can be wrong with the recipe shows before anything is written.
        _refuse_another_run(folder, recipe, processes)
        dataset = load_dataset(
            recipe.dataset, data_root=data_root, image_size=recipe.image_size, skip_unreadable=skip_unreadable
        )
        run = Run(folder, recipe, Facts.of(dataset, describe_environment()))
        torch.manual_seed(derived_seed(recipe.seed, "weights"))
        model = run.new_model()
        try:
            with exclusive(folder) if processes.is_writer else nullcontext(), process_group(processes):
                _refuse_another_run(folder, recipe, processes)  # it may have been started in the meantime
                _refuse_other_data(run, processes)
                loop = _prepared(
                    run,
                    dataset,
                    model,
                    processes,
                    watcher=watcher or Watcher(),
                    checkpoint_seconds=checkpoint_seconds,
                    tensorboard=tensorboard,
                )
                with closing(loop):
                    loop.go()
                return run
        except FolderNotUsableError as error:
            raise ValueError(f"--output {folder} {error}; choose another folder") from None


def _refuse_another_run(folder: Path, recipe: Recipe, processes: Processes) -> None:
    if not processes.is_writer or not Run.is_there(folder):
        return
    differences = recipe_differences(Run.open(folder).recipe, recipe)
    if differences:
        raise ValueError(
            f"{folder} holds another run: {'; '.join(differences)}. Choose another --output, or continue that run "
            f"with `singleshot train --resume {folder}`"
        )


def _refuse_other_data(run: Run, processes: Processes) -> None:
    """The images must be those the run began with: names and pixel statistics tell."""
    if not processes.is_writer or not Run.is_there(run.folder):
        return
    began_with = Run.open(run.folder).facts
    if replace(began_with, environment={}) != replace(run.facts, environment={}):
        raise ValueError(
            f"{run.folder} cannot be continued: the images or classes of {run.recipe.dataset} are not those that it "
            "began with; bring them back, or start anew with another --output"
        )


def _prepared(
    run: Run,
    dataset: Dataset,
    model: nn.Module,
    processes: Processes,
    *,
    watcher: Watcher,
    checkpoint_seconds: float,
    tensorboard: bool,
) -> Loop:
    """Everything in place for the next step: of a new run, or after the last checkpoint."""
    recipe = run.recipe
    positions = split_training(dataset.train.labels, validation=recipe.validation, train_images=recipe.train_images)
    schedule = Schedule(recipe, len(positions[0]))
    processes.share_of(schedule.batch)  # or an error, before anything is written
    progress = Progress(step=schedule.first_step, epochs_closed=schedule.first_step // schedule.steps_per_epoch)
    # The writer alone reads files; the others get the weights when they are wrapped, and the rest after that.
    last = run.checkpoints.last() if processes.is_writer else None
    if last is not None:
        last.load_weights(model)
    elif recipe.start_from is not None and processes.is_writer:
        Run.open(recipe.start_from).checkpoint().load_weights(model)
    stepper = Stepper(model, recipe, processes)
    progress = restore(stepper, last, progress)
    log = None
    if processes.is_writer:
        if not Run.is_there(run.folder):
            run.create()
        log = MetricsLog(
            run.folder / METRICS,
            from_step=progress.step,
            epochs_closed=progress.epochs_closed,
            tensorboard=run.folder / "tensorboard" if tensorboard else None,
        )
    return Loop(
        run,
        dataset,
        positions,
        stepper,
        progress,
        log=log,
        watcher=watcher,
        checkpoint_seconds=checkpoint_seconds,
        already_saved=last is not None,
    )
