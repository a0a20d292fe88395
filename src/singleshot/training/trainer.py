"""Train from a recipe into a folder: a new run, or the rest of one that was stopped."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing
from pathlib import Path

import torch
from torch import nn

from singleshot.common.environment import describe_environment
from singleshot.common.errors import StoppedError
from singleshot.common.files import FolderNotUsableError, exclusive
from singleshot.common.splits import split_training
from singleshot.data import Dataset, load_dataset
from singleshot.training.checkpoint import Checkpoint
from singleshot.training.display import Watcher
from singleshot.training.loop import Loop
from singleshot.training.metrics_log import MetricsLog, require_tensorboard
from singleshot.training.processes import Processes, ProcessLostError, process_group
from singleshot.training.recipe import Recipe
from singleshot.training.recipe_file import recipe_text
from singleshot.training.run import METRICS, Facts, Run, recipe_differences
from singleshot.training.schedule import Schedule, derived_seed
from singleshot.training.step import Stepper
from singleshot.training.training_state import RunState, restore


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
    if tensorboard:
        require_tensorboard()
    processes = Processes.from_environment(recipe.device)
    if processes.count == 1:
        _refuse_another_run(folder, recipe)  # before the images are looked at, which may take long
    cuda = [processes.device] if processes.device.type == "cuda" else []
    cudnn = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True)
    with torch.random.fork_rng(devices=cuda), cudnn:
        dataset = load_dataset(
            recipe.dataset, data_root=data_root, image_size=recipe.image_size, skip_unreadable=skip_unreadable
        )
        run = Run(folder, recipe, Facts.of(dataset, describe_environment()))
        torch.manual_seed(derived_seed(recipe.seed, "weights"))
        model = run.new_model()  # whatever can be wrong with a recipe has shown by now, and nothing was written
        try:
            with ExitStack() as stack:
                stack.enter_context(process_group(processes))
                processes.done_by_writer(lambda: _hold(stack, run, dataset))
                loop = _prepared(
                    run,
                    dataset,
                    model,
                    processes,
                    watcher=watcher or Watcher(),
                    checkpoint_seconds=checkpoint_seconds,
                    tensorboard=tensorboard,
                )
                stack.enter_context(closing(loop))
                loop.go()
                return run
        except FolderNotUsableError as error:
            reason: Exception = ValueError(f"--output {folder} {error}; choose another folder")
        except ProcessLostError as error:
            reason = StoppedError(f"before the first step, another process of this run is gone ({error})")
    raise reason


def _hold(stack: ExitStack, run: Run, dataset: Dataset) -> None:
    """Take the folder, as the only process that writes there, unless it holds something else."""
    stack.enter_context(exclusive(run.folder))
    _refuse_another_run(run.folder, run.recipe)
    if Run.is_there(run.folder):
        Run.open(run.folder).refuse_other_data(dataset)


def _refuse_another_run(folder: Path, recipe: Recipe) -> None:
    if not Run.is_there(folder):
        return
    differences = recipe_differences(Run.open(folder).recipe, recipe)
    if differences:
        raise ValueError(
            f"{folder} holds another run: {'; '.join(differences)}. Choose another --output, or continue that run "
            f"with `singleshot train --resume {folder}`"
        )


def _refuse_to_differ(run: Run, processes: Processes) -> None:
    """Every process must have the recipe and the images of the first, or all of them end here."""
    mine = recipe_text(run.recipe) + json.dumps(run.facts.without_place().to_dict())
    if processes.any_of_us(processes.text_from_writer(mine) != mine):
        raise ValueError("the processes were not given the same recipe and the same images; check flags and data roots")


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
    _refuse_to_differ(run, processes)
    start = RunState(step=schedule.first_step, epochs_closed=schedule.first_step // schedule.steps_per_epoch)
    # The writer alone reads files; the others get the weights when they are wrapped, and the rest after that.
    last = processes.done_by_writer(lambda: _loaded(run, model))
    stepper = Stepper(model, recipe, processes)
    progress = restore(stepper, last, start)
    if not start.step <= progress.step <= schedule.steps:
        raise ValueError(f"{run.folder} has a checkpoint of step {progress.step}, but only {schedule.steps} steps")
    log = processes.done_by_writer(lambda: _opened_log(run, progress, tensorboard))
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


def _loaded(run: Run, model: nn.Module) -> Checkpoint | None:
    """Put the weights a run goes on from into the model: of its last checkpoint, or of the run it starts from."""
    last = run.last_checkpoint()
    if last is not None:
        last.load_weights(model)
    elif run.recipe.start_from is not None:
        Run.open(run.recipe.start_from).checkpoint().load_weights(model)
    return last


def _opened_log(run: Run, progress: RunState, tensorboard: bool) -> MetricsLog:
    if not Run.is_there(run.folder):
        run.create()
    return MetricsLog(
        run.folder / METRICS,
        from_step=progress.step,
        epochs_closed=progress.epochs_closed,
        tensorboard=run.folder / "tensorboard" if tensorboard else None,
    )
