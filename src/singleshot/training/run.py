"""A training run on disk.

runs/a/recipe.yaml       the resolved recipe
runs/a/run.json          class names, normalization, versions and machine
runs/a/metrics.jsonl     one line per logged step and per epoch
runs/a/checkpoints/      the last two and the best
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from singleshot.common.files import write_text
from singleshot.training.checkpoint import Checkpoint, Checkpoints, TrainingState, read_json
from singleshot.training.metrics_log import LogStart, MetricsLog, Record, read_records
from singleshot.training.recipe import Recipe
from singleshot.training.recipe_file import read_recipe, recipe_text

if TYPE_CHECKING:
    import torch
    from torch import nn

    from singleshot.data import Dataset
    from singleshot.data.augmentation import Normalization

FORMAT = "singleshot.run/1"
RECIPE, INFO, METRICS_LOG, CHECKPOINTS = "recipe.yaml", "run.json", "metrics.jsonl", "checkpoints"


@dataclass(frozen=True)
class RunInfo:
    """Properties of the data set that using the weights requires, and the environment of the training."""

    class_names: tuple[str, ...]
    channels: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    images: tuple[int, int]  # in the training and the test part of the data set
    environment: dict[str, Any]

    def __post_init__(self) -> None:
        if not len(self.mean) == len(self.std) == self.channels:
            raise ValueError(f"{self.channels} channels need as many values of mean and std")

    @classmethod
    def of(cls, dataset: Dataset, environment: dict[str, Any]) -> RunInfo:
        """Return the information on a run with this data set."""
        images = len(dataset.train), len(dataset.test)
        return cls(dataset.class_names, dataset.channels, dataset.mean, dataset.std, images, environment)


@dataclass(frozen=True)
class Run:
    """A training run in a folder.

    >>> import tempfile
    >>> from singleshot.training import train
    >>> recipe = Recipe(dataset="digits", model="small_cnn", image_size=8, train_images=100, epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     finished = train(recipe, folder)
    ...     run = Run.open(folder)
    >>> run.info.class_names[:3]
    ('0', '1', '2')
    """

    folder: Path
    recipe: Recipe
    info: RunInfo

    def create(self) -> None:
        """Write the recipe and the run information."""
        write_text(self.folder / RECIPE, recipe_text(self.recipe))
        write_text(self.folder / INFO, json.dumps({"format": FORMAT, **asdict(self.info)}, indent=2))

    @classmethod
    def open(cls, folder: Path | str) -> Run:
        """Open the run in a folder."""
        folder = Path(folder)
        if not cls.exists(folder):
            raise ValueError(f"{folder} is not a run: it has no {INFO}; `singleshot train --output {folder}` makes one")
        recipe = read_recipe(folder / RECIPE)
        try:
            recipe.resolved()
        except ValueError as error:
            raise ValueError(f"{folder / RECIPE}: {error}") from None
        try:
            info = msgspec.convert(read_json(folder / INFO, FORMAT), RunInfo)
        except ValueError as error:
            raise ValueError(f"{folder / INFO} is damaged ({error})") from None
        return cls(folder, recipe, info)

    @staticmethod
    def exists(folder: Path) -> bool:
        """Whether a run was started in this folder."""
        return (folder / INFO).exists()

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints on disk."""
        return Checkpoints(self.folder / CHECKPOINTS)

    def records(self) -> list[Record]:
        """Return the records of the metrics log."""
        return read_records(self.folder / METRICS_LOG)

    def open_log(self, state: TrainingState, *, start: LogStart | None = None, tensorboard: bool) -> MetricsLog:
        """Open the log to continue from this state; a new run is created first."""
        if not self.exists(self.folder):
            self.create()
        logs = self.folder / "tensorboard" if tensorboard else None
        return MetricsLog(self.folder / METRICS_LOG, state, start=start, tensorboard=logs)

    def recipe_hash(self) -> str:
        """Return the checksum of the recipe file. It stays the same if a later version renames or reorders fields."""
        return hashlib.sha256((self.folder / RECIPE).read_text(encoding="utf-8").encode()).hexdigest()

    def checkpoint(self, which: str = "last") -> Checkpoint:
        """Open the ``last`` checkpoint, or the ``best`` on the validation images."""
        last = self.checkpoints.last()
        if last is None:
            raise ValueError(
                f"{self.folder} has no checkpoint yet; resume it: `singleshot train --resume {self.folder}`"
            )
        if last.recipe_hash != self.recipe_hash():
            raise ValueError(f"{last.folder} belongs to another recipe than {self.folder / RECIPE}; remove it")
        if which == "last":
            return last
        if last.state.best is None:
            raise ValueError(
                f"{self.folder} has no best checkpoint: no validation images are held out to the end "
                "(--validation 0.1 --give-back 0)"
            )
        return self.checkpoints.at(last.state.best.step)

    def load_model(self, which: str = "last") -> nn.Module:
        """Return the trained network in evaluation mode, on the CPU."""
        model = self.new_model()
        self.checkpoint(which).load_weights(model)
        return model.eval()

    def load_first_weights(self, model: nn.Module) -> Checkpoint | None:
        """Load the weights of the last checkpoint, which is returned, or of the run that the recipe starts from."""
        if self.checkpoints.last_step() is not None:
            last = self.checkpoint()
            last.load_weights(model)
            return last
        if self.recipe.start_from is not None:
            start = Run.open(self.recipe.start_from)
            same = ("dataset", "train_images", "validation")
            if self.recipe.validation and not (
                start.recipe.holds_out
                and all(getattr(start.recipe, name) == getattr(self.recipe, name) for name in same)
            ):
                raise ValueError(
                    f"{start.folder} was trained on images that this run would hold out; start from a run with "
                    f"--validation {self.recipe.validation:g} that never trains on them, or hold nothing out with "
                    "--validation 0"
                )
            start.checkpoint().load_weights(model)
        return None

    def check_dataset(self, dataset: Dataset) -> None:
        """Raise ValueError unless the numbers of images, classes and pixel statistics are those of the run."""
        if RunInfo.of(dataset, {}) != replace(self.info, environment={}):
            raise ValueError(
                f"{self.folder} was trained on other data: the images or classes of {self.recipe.dataset} have "
                "changed; restore them, or start from scratch with another --output"
            )

    def new_model(self) -> nn.Module:
        """Return the network of this run with random weights."""
        from singleshot.models import create_model

        return create_model(
            self.recipe.model,
            num_classes=len(self.info.class_names),
            in_channels=self.info.channels,
            width=self.recipe.width,
            noise=self.recipe.noise,
        )

    def normalization(self, device: torch.device | str = "cpu") -> Normalization:
        """Return the function from uint8 images to the input of the network."""
        from singleshot.data.augmentation import Normalization

        return Normalization(self.info.mean, self.info.std, channels_last=self.recipe.channels_last, device=device)


def recipe_differences(stored: Recipe, given: Recipe) -> list[str]:
    """Describe the fields in which two recipes differ."""
    return [
        f"{field.name} is {getattr(stored, field.name)!r}, not {getattr(given, field.name)!r}"
        for field in fields(Recipe)
        if getattr(stored, field.name) != getattr(given, field.name)
    ]
