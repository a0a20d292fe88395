"""``singleshot train``: from a recipe to a checkpoint one can trust."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, arg

from singleshot.cli.display import try_to_write
from singleshot.training.recipe import Recipe
from singleshot.training.recipe_file import PresetName, preset as preset_recipe, read_recipe_values

if TYPE_CHECKING:
    from singleshot.training.run import Run

DEFAULT_PRESET: PresetName = "small"


def train_command(args: Sequence[str]) -> Callable[..., None]:
    """The command, its defaults taken from the preset, recipe file or run that these arguments name.

    So the help shows the values that hold for that network. A flag that is given beats a file, which beats a preset.
    """
    defaults = _defaults(args)

    def train(  # noqa: PLR0917
        recipe: OmitArgPrefixes[Recipe] = defaults,
        output: Path | None = None,
        preset: PresetName = DEFAULT_PRESET,
        recipe_file: Annotated[Path | None, arg(name="recipe")] = None,
        resume: Path | None = None,
        data_root: Path | None = None,
        skip_unreadable: Annotated[bool, FlagCreatePairsOff] = False,
        checkpoint_seconds: float = 300.0,
        tensorboard: Annotated[bool, FlagCreatePairsOff] = False,
        no_report: Annotated[bool, FlagCreatePairsOff] = False,
    ) -> None:
        """Train a network so that its softmax score is a confidence one can act on.

        Weights, recipe and metrics go to OUTPUT, and at the end a page to look at, OUTPUT/report.html. Ctrl-C and
        SIGTERM save and stop (exit codes 130 and 143); the same command, or --resume OUTPUT, goes on in the middle of
        the epoch, to the same weights, bit for bit.

        Example: singleshot train --dataset digits --model resnet18 --width 0.25 --loss vwci --epochs 3 --output runs/a

        Several devices: torchrun --nproc-per-node 4 -m singleshot train --dataset cifar100 --output runs/b

        Args:
            recipe: what to do.
            output: folder of the run; by default runs/DATASET-MODEL-LOSS-SEED.
            preset: what to start from: "small" for a laptop, or the "paper"'s values.
            recipe_file: YAML file with values of a recipe; flags beat it.
            resume: folder of a stopped run to continue, with the recipe it has.
            data_root: where the data sets are; by default $SINGLESHOT_DATA, then the user's cache.
            skip_unreadable: leave out images that cannot be read, and count them.
            checkpoint_seconds: save at least this often; each best epoch and the end are saved too.
            tensorboard: record for TensorBoard as well (the extra singleshot[tensorboard]).
            no_report: write no page at the end.
        """
        if not checkpoint_seconds >= 0:  # so that NaN is refused as well
            raise ValueError(f"--checkpoint-seconds must be at least 0, got {checkpoint_seconds}")
        if resume is not None:
            _refuse_changes(resume, recipe, defaults)
            for flag in ("--recipe", "--preset"):
                if _value(args, flag) is not None:
                    raise ValueError(f"--resume {resume} goes on with the recipe it has; leave out {flag}")
            if output is not None and output != resume:
                raise ValueError(f"--resume {resume} writes where it was; leave out --output {output}")
        named = f"{Path(recipe.dataset).resolve().name}-{recipe.model}-{recipe.loss}-{recipe.seed}"
        folder = resume or output or Path("runs") / named
        # Torch warns that every block was used in the first step; in others some are dropped.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        recipe.resolved()  # a wrong value is said before the seconds that torch takes to load
        from singleshot.training.display import Display
        from singleshot.training.processes import Processes
        from singleshot.training.trainer import train as run_training

        run = run_training(
            recipe,
            folder,
            data_root=data_root,
            skip_unreadable=skip_unreadable,
            checkpoint_seconds=checkpoint_seconds,
            tensorboard=tensorboard,
            watcher=Display(),
        )
        if Processes.from_environment("cpu").is_writer:
            print(f"The run:  {run.folder}\nIts test images:  singleshot evaluate {run.folder}")
            if not no_report:
                _write_page(run, data_root)

    return train


def _write_page(run: Run, data_root: Path | None) -> None:
    """The page about the images that the run itself was judged by."""
    folder, split = run.folder, "validation" if run.recipe.validation else "test"
    advice = None

    def write(page: Path) -> bool:
        from singleshot.evaluation.verdict import measure_advice
        from singleshot.report.page import run_report, write_page

        nonlocal advice
        report = run_report(folder, name=folder.name, split=split, data_root=data_root, device=run.recipe.device)
        write_page([report], page, title=f"{report.name}: can its scores be trusted?")
        examples = report.evaluation.examples
        if examples is not None and split == "validation":  # test images choose nothing
            advice = measure_advice(run.recipe, examples)
        return True

    page = folder / "report.html"
    root = [] if data_root is None else ["--data-root", str(data_root)]
    retry = shlex.join(["singleshot", "report", str(folder), "-o", str(page), "--split", split, *root])
    if try_to_write(page, write, f"`{retry}`"):
        print(f"The page:  {page} ({split} images)")
        if advice is not None:
            print(advice)


def _defaults(args: Sequence[str]) -> Recipe:
    """The recipe before flags."""
    resume = _value(args, "--resume")
    if resume is not None:
        from singleshot.training.run import Run

        return Run.open(resume).recipe
    file = _value(args, "--recipe")
    values = read_recipe_values(Path(file)) if file is not None else {}
    name = _value(args, "--preset") or DEFAULT_PRESET
    if name not in get_args(PresetName):
        name = DEFAULT_PRESET  # the parser will say what is wrong with it
    model = _value(args, "--model") or values.get("model", Recipe.model)
    dataset = _value(args, "--dataset") or values.get("dataset", Recipe.dataset)
    return replace(preset_recipe(name, model=model, dataset=dataset), **values)  # type: ignore[arg-type]


def _value(args: Sequence[str], flag: str) -> str | None:
    """What a flag was given, the last time it was given; the parser itself runs later, with the defaults from this."""
    found = None
    for position, word in enumerate(args):
        if word == flag and position + 1 < len(args):
            found = args[position + 1]
        elif word.startswith(f"{flag}="):
            found = word.removeprefix(f"{flag}=")
    return found


def _refuse_changes(resume: Path, recipe: Recipe, stored: Recipe) -> None:
    from singleshot.training.run import recipe_differences

    differences = recipe_differences(stored, recipe)
    if differences:
        raise ValueError(f"{resume} is continued with the recipe it has, but {'; '.join(differences)}")
