"""Train a network from a recipe: start a new run, or resume one."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path

import torch

from singleshot.common.environment import describe_environment
from singleshot.common.errors import StoppedError
from singleshot.common.files import FolderNotUsableError, exclusive
from singleshot.data import Dataset
from singleshot.sampling.state import random_state
from singleshot.training.display import Callback
from singleshot.training.distributed import Processes, ProcessLostError, process_group
from singleshot.training.loop import TrainingLoop
from singleshot.training.metrics_log import require_tensorboard
from singleshot.training.recipe import Recipe
from singleshot.training.run import Run, RunInfo, recipe_differences
from singleshot.training.schedule import derived_seed, load_images


def train(
    recipe: Recipe,
    output: Path | str,
    *,
    data_root: Path | None = None,
    skip_unreadable: bool = False,
    checkpoint_seconds: float = 300.0,
    tensorboard: bool = False,
    callback: Callback | None = None,
) -> Run:
    """Train in the folder ``output`` and return the finished run.

    An unfinished run of the same recipe in that folder is resumed, and ends with the weights it would have had without
    the interruption. A run of another recipe is an error. Under ``torchrun`` every process calls this function.

    Args:
        recipe: the settings; :func:`singleshot.training.preset` returns recipes to start from.
        output: folder of the run.
        data_root: folder of the data sets; None: $SINGLESHOT_DATA, or the user's cache.
        skip_unreadable: leave out images that cannot be read instead of raising.
        checkpoint_seconds: maximum time between checkpoints; the best epoch and the end are saved as well.
        tensorboard: write TensorBoard logs to ``output/tensorboard`` as well.
        callback: called after every step and evaluation.

    >>> import tempfile
    >>> recipe = Recipe(dataset="digits", model="small_cnn", image_size=8, train_images=100, epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = train(recipe, folder)
    ...     model = run.load_model()
    >>> run.recipe.epochs, model.training
    (1, False)
    """
    if not isinstance(recipe, Recipe):
        raise TypeError(f"recipe must be a Recipe, got {type(recipe).__name__}; use Recipe(...) or preset(...)")
    recipe, folder = recipe.resolved(), Path(output)
    if tensorboard:
        require_tensorboard()
    processes = Processes.from_environment(recipe.device)
    if processes.count == 1:
        _check_folder(folder, recipe)  # before loading the images, which may take long
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True):
        dataset = load_images(recipe, data_root=data_root, skip_unreadable=skip_unreadable)
        run = Run(folder, recipe, RunInfo.of(dataset, describe_environment()))
        with random_state(derived_seed(recipe.seed, "weights"), None, processes.device):
            model = run.new_model()  # an invalid recipe has raised by now, before anything is written
        try:
            with ExitStack() as stack:
                stack.enter_context(process_group(processes))
                processes.on_main(lambda: _lock(stack, run, dataset))
                loop = TrainingLoop(
                    run,
                    dataset,
                    model,
                    processes,
                    callback=callback or Callback(),
                    checkpoint_seconds=checkpoint_seconds,
                    tensorboard=tensorboard,
                )
                stack.enter_context(closing(loop))
                loop.train()
                return run
        except FolderNotUsableError as error:
            reason: Exception = ValueError(f"--output {folder} {error}; choose another folder")
        except ProcessLostError as error:
            reason = StoppedError(f"another process of this run was lost before the first step ({error})")
    raise reason


def _lock(stack: ExitStack, run: Run, dataset: Dataset) -> None:
    """Lock the folder against other processes, and check that it holds nothing but this run."""
    stack.enter_context(exclusive(run.folder))
    _check_folder(run.folder, run.recipe)
    if Run.exists(run.folder):
        Run.open(run.folder).check_dataset(dataset)


def _check_folder(folder: Path, recipe: Recipe) -> None:
    if not Run.exists(folder):
        return
    differences = recipe_differences(Run.open(folder).recipe, recipe)
    if differences:
        raise ValueError(
            f"{folder} holds another run: {'; '.join(differences)}. Choose another --output, or resume that run "
            f"with `singleshot train --resume {folder}`"
        )
