"""The job of training a network from a recipe and measuring its calibration."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from singleshot.common.environment import HARDWARE, describe_environment
from singleshot.common.files import FolderNotUsableError, exclusive
from singleshot.data import Dataset, Images
from singleshot.data.augmentation import Normalization
from singleshot.evaluation.details import measure_details
from singleshot.grid.job import Job, Rescaled, Result, hash_key
from singleshot.metrics import Calibration, VarianceHistogram
from singleshot.posthoc import TemperatureScaling
from singleshot.sampling import sample
from singleshot.training.display import Callback
from singleshot.training.distributed import select_device
from singleshot.training.inference import evaluation_mode, image_batches, logits_of
from singleshot.training.metrics_log import Record
from singleshot.training.recipe import ADDED, RENAMED, Recipe
from singleshot.training.recipe_file import checked_values
from singleshot.training.run import Run
from singleshot.training.schedule import load_images, trained_and_held_out
from singleshot.training.trainer import train

if TYPE_CHECKING:
    from typing_extensions import Self

MEASURED_PASSES = 5
"""Number of stochastic passes over the test images, as in the paper."""
NOT_IN_KEY = ("device", "memory", "compile", "channels_last", "start_from")
"""Recipe fields that change where and how fast a run is computed, not its result."""
DEFAULTS_IN_KEY = {"strength": 1.0}
"""Defaults of recipe fields when the first keys were made, where they have changed since."""
_FIRST_NAMES = {now: before for before, now in RENAMED.items()}  # keys hash the first name of a renamed field


@dataclass(frozen=True)
class TrainingJob(Job):
    """Train from a recipe, optionally from the weights of another run, and measure the calibration."""

    recipe: Recipe
    start: Recipe | None = None  # recipe of the run that provides the initial weights
    label: str = field(default="", compare=False)  # name of the method, for the title only

    @cached_property
    def key(self) -> str:
        """Hash of the fields that determine the result and differ from the first defaults of `Recipe`.

        A field added to `Recipe` later, with a default that keeps the old behaviour, changes no key.
        """
        recipes = [self.recipe] if self.start is None else [self.recipe, self.start]
        return hash_key([_key_fields(recipe) for recipe in recipes])

    @property
    def title(self) -> str:
        """Data set, network, method and seed."""
        return f"{self.recipe.dataset} {self.recipe.model}, {self.label or self.recipe.loss}, seed {self.recipe.seed}"

    @property
    def folder(self) -> str:
        """One subfolder per data set and network."""
        return f"{dataset_name(self.recipe.dataset)}/{self.recipe.model}"

    @property
    def requires(self) -> TrainingJob | None:
        """The run that provides the initial weights."""
        return None if self.start is None else TrainingJob(self.start)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"recipe": vars(self.recipe), "start": None if self.start is None else vars(self.start)}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Return the job that `to_dict` wrote, also under earlier names of recipe fields."""
        start = content["start"]
        return cls(_recipe(content["recipe"]), None if start is None else _recipe(start))

    def check_result(self, result: Result) -> None:
        """Require the validation split of runs that hold images out, and temperature scaling."""
        expected = {"test", "validation"} if self.recipe.holds_out else {"test"}
        if set(result.splits) != expected:
            raise ValueError(f"its splits are {', '.join(result.splits)}, not {', '.join(sorted(expected))}")
        if result.rescaled is None:
            raise ValueError("rescaled is missing")

    def execute(self, workspace: Path, *, data_root: Path | None = None, callback: Callback | None = None) -> Result:
        """Train in ``workspace/KEY``, resuming an earlier run, and measure the result.

        The run that provides the initial weights is trained first if the workspace does not have it: a machine with
        its own disk gets the same result.
        """
        recipe, folder = self.recipe, workspace / self.key
        if self.requires is not None:
            start = workspace / self.requires.key
            _wait_until_free(start)
            train(self.requires.recipe, start, data_root=data_root, callback=callback)
            # A run that has already started only needs the path that it recorded.
            name = Run.open(folder).recipe.start_from if Run.exists(folder) else str(start)
            recipe = replace(recipe, start_from=name)
        _wait_until_free(folder)
        train(recipe, folder, data_root=data_root, callback=callback)
        return measure(self, Run.open(folder), load_images(recipe, data_root=data_root))


def _key_fields(recipe: Recipe) -> dict[str, Any]:
    defaults = {**vars(Recipe()), **DEFAULTS_IN_KEY}
    changed = {name: value for name, value in vars(recipe).items() if value != defaults[name]}
    return {_FIRST_NAMES.get(name, name): value for name, value in changed.items() if name not in NOT_IN_KEY}


def _recipe(content: dict[str, Any]) -> Recipe:
    return Recipe(**{**ADDED, **checked_values(content, source="recipe")}).resolved()


def dataset_name(dataset: str) -> str:
    """Return the name of a data set for use in file names; for a folder of images, its last component.

    >>> dataset_name("cifar100"), dataset_name("pictures/birds"), dataset_name("..")
    ('cifar100', 'birds', 'images')
    """
    name = Path(dataset).name
    return name if name.strip(".") else "images"


def _wait_until_free(folder: Path) -> None:
    """Wait for a worker that was considered dead but still holds the folder."""
    with suppress(FolderNotUsableError), exclusive(folder, before_waiting=lambda: None):
        pass


def measure(job: TrainingJob, run: Run, dataset: Dataset) -> Result:
    """Measure a finished run: single pass, after temperature scaling, and the disagreement of stochastic passes."""
    recipe = run.recipe
    device = select_device(recipe.device)
    model, normalization = run.load_model().to(device), run.normalization(device)
    trained, held_out = trained_and_held_out(recipe, dataset.train.labels)
    test_logits, test_labels = logits_of(model, dataset.test, torch.arange(len(dataset.test)), normalization)
    splits = {"test": _calibration(test_logits, test_labels)}
    fitted_on = "validation" if len(held_out) else "train"
    logits, labels = logits_of(model, dataset.train, held_out if len(held_out) else trained, normalization)
    if len(held_out):
        splits["validation"] = _calibration(logits, labels)
    with warnings.catch_warnings(record=True) as caught:  # warns if every example is classified correctly
        warnings.simplefilter("always")
        scaling = TemperatureScaling.fit(logits, labels)
    rescaled = _calibration(scaling(test_logits), test_labels)
    records = run.records()
    details = None
    if recipe.track:
        details = measure_details(model, dataset, trained, normalization)
    environment = describe_environment()
    return Result(
        job=job,
        seconds=_latest(records, "seconds"),
        cpu_seconds=_latest(records, "processor_seconds") or None,
        device=device.type,
        environment=run.info.environment,
        data=data_facts(dataset),
        splits=splits,
        rescaled=Rescaled(fitted_on, scaling.temperature, bool(caught), rescaled),
        variance=None if recipe.noise == 0 else _variance(model, dataset.test, normalization),
        measured_in=None if _versions(environment) == _versions(run.info.environment) else environment,
        curve=tracked_epochs(records) if recipe.track else None,
        details=details,
    )


def tracked_epochs(records: list[Record]) -> list[dict[str, Any]]:
    """Return the metrics of every evaluated epoch, by split."""
    epochs = [record for record in records if record["kind"] == "epoch" and "train" in record]
    splits = ("train", "unused", "validation", "test")
    return [
        {"epoch": record["epoch"], **{split: record[split] for split in splits if split in record}} for record in epochs
    ]


def data_facts(dataset: Dataset) -> dict[str, Any]:
    """Return what distinguishes the images of data sets with the same name."""
    return {
        "train": len(dataset.train),
        "test": len(dataset.test),
        "classes": len(dataset.class_names),
        "channels": dataset.channels,
        "mean": list(dataset.mean),
        "std": list(dataset.std),
    }


def _versions(environment: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in environment.items() if name not in HARDWARE}


def _latest(records: list[Record], name: str) -> float:
    return max((float(record.get(name) or 0) for record in records), default=0.0)


def _calibration(logits: Tensor, labels: Tensor) -> Calibration:
    calibration = Calibration(bins=20)
    calibration.update(logits=logits, labels=labels)
    return calibration


def _variance(model: nn.Module, images: Images, normalization: Normalization) -> VarianceHistogram:
    histogram = VarianceHistogram(bins=20)
    with evaluation_mode(model):
        for number, (batch, labels) in enumerate(image_batches(images, torch.arange(len(images)), normalization)):
            passes = sample(model, batch, samples=MEASURED_PASSES, seed=number)
            histogram.update(logits=passes.float(), labels=labels)
    return histogram
