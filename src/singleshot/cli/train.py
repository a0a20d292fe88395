"""``singleshot train``: train a network and write its report."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

from tyro.conf import OmitArgPrefixes, arg

from singleshot.cli.display import failure_allowed
from singleshot.cli.options import Flag
from singleshot.training.recipe import Recipe
from singleshot.training.recipe_file import PresetName, preset as preset_recipe, read_recipe_values

if TYPE_CHECKING:
    from singleshot.training.run import Run

DEFAULT_PRESET: PresetName = "small"


def train_command(args: Sequence[str]) -> Callable[..., None]:
    """Return the command with defaults from the preset, recipe file or run that these arguments name.

    The help then shows the values that apply. Flags override the file, which overrides the preset.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for flag in ("--resume", "--recipe", "--preset", "--model", "--dataset", "--validation"):
        parser.add_argument(flag, nargs="?")
    given, _ = parser.parse_known_args(args)
    defaults = _defaults(given)

    def train(  # noqa: PLR0917
        recipe: OmitArgPrefixes[Recipe] = defaults,
        output: Path | None = None,
        preset: PresetName = DEFAULT_PRESET,
        recipe_file: Annotated[Path | None, arg(name="recipe")] = None,
        resume: Path | None = None,
        data_root: Path | None = None,
        skip_unreadable: Flag = False,
        checkpoint_seconds: float = 300.0,
        tensorboard: Flag = False,
        no_report: Flag = False,
    ) -> None:
        """Train a network whose softmax score is a calibrated confidence.

        Writes weights, recipe and metrics to OUTPUT, and at the end a report to OUTPUT/report.html. Ctrl-C and SIGTERM
        save a checkpoint and stop (exit codes 130 and 143). The same command, or --resume OUTPUT, resumes within the
        epoch and gives the same weights, bit for bit.

        Example: singleshot train --dataset digits --model resnet18 --width 0.25 --loss vwci --epochs 3 --output runs/a

        Several devices: torchrun --nproc-per-node 4 -m singleshot train --dataset cifar100 --output runs/b

        Args:
            recipe: settings of the run.
            output: folder of the run; default: runs/DATASET-MODEL-LOSS-SEED.
            preset: settings to start from: "small" for a laptop, or "paper" for the scale of the paper.
            recipe_file: YAML file with settings; flags override it.
            resume: folder of an interrupted run to resume with its own recipe.
            data_root: folder of the data sets; default: $SINGLESHOT_DATA, then the user's cache.
            skip_unreadable: leave out images that cannot be read, and count them.
            checkpoint_seconds: maximum time between checkpoints; the best epoch and the end are saved as well.
            tensorboard: write TensorBoard logs as well (needs the extra singleshot[tensorboard]).
            no_report: do not write the report.
        """
        if not checkpoint_seconds >= 0:  # refuses NaN as well
            raise ValueError(f"--checkpoint-seconds must be at least 0, got {checkpoint_seconds}")
        if resume is not None:
            _check_resume(given, output, recipe, defaults)
        name = f"{Path(recipe.dataset).resolve().name}-{recipe.model}-{recipe.loss}-{recipe.seed}"
        folder = resume or output or Path("runs") / name
        # Torch warns that every block was used in the first step; in other steps some are dropped.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        if recipe.is_tuned and not recipe.validation:
            _check_no_validation(recipe, recipe_file, is_flag=given.validation is not None)
        _check_values(recipe, recipe_file)  # report a bad value before torch is imported, which takes seconds
        from singleshot.training.display import Display
        from singleshot.training.distributed import Processes
        from singleshot.training.trainer import train as run_training

        run = run_training(
            recipe,
            folder,
            data_root=data_root,
            skip_unreadable=skip_unreadable,
            checkpoint_seconds=checkpoint_seconds,
            tensorboard=tensorboard,
            callback=Display(),
        )
        if Processes.from_environment("cpu").is_main:
            print(f"The run:  {run.folder}\nEvaluate it on the test images:  singleshot evaluate {run.folder}")
            if not no_report:
                _write_report(run, data_root)

    return train


def _write_report(run: Run, data_root: Path | None) -> None:
    """Write the report on the images that the run itself was evaluated on."""
    folder, split = run.folder, "validation" if run.recipe.holds_out else "test"
    page = folder / "report.html"
    root = [] if data_root is None else ["--data-root", str(data_root)]
    retry = shlex.join(["singleshot", "report", str(folder), "-o", str(page), "--split", split, *root])
    with failure_allowed(f"`{retry}`"):
        from singleshot.evaluation.advice import advise
        from singleshot.reporting.one_call import page_title
        from singleshot.reporting.page import run_report, write_page

        report = run_report(folder, name=folder.name, split=split, data_root=data_root, device=run.recipe.device)
        write_page([report], page, title=page_title([report.name]))
        print(f"The page:  {page} ({split} images)")
        recipe = run.recipe
        # Test images must not select a recipe, and a tuned strength leaves nothing to choose.
        if split == "validation" and recipe.loss == "vwci" and not recipe.is_tuned:
            advice = advise(report.evaluation, measure=recipe.measure)
            if advice is not None:
                print(advice)


def _defaults(given: argparse.Namespace) -> Recipe:
    """Return the recipe before flags are applied."""
    if given.resume is not None:
        from singleshot.training.run import Run

        return Run.open(given.resume).recipe
    values = {} if given.recipe is None else read_recipe_values(Path(given.recipe))
    known = given.preset in get_args(PresetName)  # otherwise the command's own parser reports it
    model = given.model or values.get("model", Recipe.model)
    dataset = given.dataset or values.get("dataset", Recipe.dataset)
    return replace(preset_recipe(given.preset if known else DEFAULT_PRESET, model=model, dataset=dataset), **values)


def _check_no_validation(recipe: Recipe, file: Path | None, *, is_flag: bool) -> None:
    """Refuse a share of 0 that was asked for; the default of 0 is replaced."""
    if is_flag or (file is not None and "validation" in read_recipe_values(file)):
        flag = "--strength auto" if recipe.strength == "auto" else f"--loss {recipe.loss}"
        where = "--validation 0" if is_flag else f"`validation: 0` in {file}"
        raise ValueError(f"{flag} tunes on held-out images: leave out {where}, or choose a share")


def _check_values(recipe: Recipe, file: Path | None) -> None:
    try:
        recipe.resolved()
    except ValueError as error:
        field = str(error).partition(" ")[0]
        values = {} if file is None else read_recipe_values(file)
        if field in values and values[field] == getattr(recipe, field):  # no flag has replaced it
            raise ValueError(f"{file}: {error}") from None
        raise


def _check_resume(given: argparse.Namespace, output: Path | None, recipe: Recipe, stored: Recipe) -> None:
    from singleshot.training.run import recipe_differences

    folder = Path(given.resume)
    differences = recipe_differences(stored, recipe)
    if differences:
        raise ValueError(f"--resume {folder} uses the recipe of that run, where {'; '.join(differences)}")
    for flag in ("recipe", "preset"):
        if getattr(given, flag) is not None:
            raise ValueError(f"--resume {folder} uses the recipe of that run; leave out --{flag}")
    if output is not None and output != folder:
        raise ValueError(f"--resume {folder} writes to the folder of that run; leave out --output {output}")
