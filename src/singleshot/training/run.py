"""A run on disk: what it was made from, what it recorded, and its checkpoints.

runs/a/recipe.yaml       the resolved recipe
runs/a/run.json          class names, normalization, versions and machine
runs/a/metrics.jsonl     one line per logged step and per epoch
runs/a/checkpoints/      the last and the best
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singleshot.common.files import write_text
from singleshot.training.checkpoint import Checkpoint, Checkpoints
from singleshot.training.recipe import Recipe
from singleshot.training.recipe_file import read_recipe, recipe_text

if TYPE_CHECKING:
    import torch
    from torch import nn

    from singleshot.data import Dataset
    from singleshot.data.augmentation import Normalization

FORMAT = "singleshot.run/1"
RECIPE, FACTS, METRICS, CHECKPOINTS = "recipe.yaml", "run.json", "metrics.jsonl", "checkpoints"


@dataclass(frozen=True)
class Facts:
    """What the weights need besides themselves to be used without the data set."""

    class_names: tuple[str, ...]
    channels: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    images: tuple[int, int]  # in the training and the test part of the data set
    environment: dict[str, Any]

    @classmethod
    def of(cls, dataset: Dataset, environment: dict[str, Any]) -> Facts:
        """Of a network that is trained on this data set, here and now."""
        images = len(dataset.train), len(dataset.test)
        return cls(dataset.class_names, dataset.channels, dataset.mean, dataset.std, images, environment)

    def without_place(self) -> Facts:
        """What must be the same wherever and whenever the run goes on."""
        return replace(self, environment={})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Facts:
        """What `to_dict` gave."""
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}")
        facts = cls(
            class_names=tuple(str(name) for name in content["class_names"]),
            channels=int(content["channels"]),
            mean=tuple(float(value) for value in content["mean"]),
            std=tuple(float(value) for value in content["std"]),
            images=(int(content["images"][0]), int(content["images"][1])),
            environment=dict(content["environment"]),
        )
        if not len(facts.mean) == len(facts.std) == facts.channels:
            raise ValueError(f"{facts.channels} channels need as many values of mean and std")
        return facts


@dataclass(frozen=True)
class Run:
    """A training run in a folder."""

    folder: Path
    recipe: Recipe
    facts: Facts

    def create(self) -> None:
        """Put down what the run is made from; its folder is a run from now on."""
        write_text(self.folder / RECIPE, recipe_text(self.recipe))
        write_text(self.folder / FACTS, json.dumps(self.facts.to_dict(), indent=2))

    @classmethod
    def open(cls, folder: Path | str) -> Run:
        """The run in a folder, or an error that says what is missing there."""
        folder = Path(folder)
        if not cls.is_there(folder):
            raise ValueError(
                f"{folder} holds no run: there is no {FACTS}; `singleshot train --output {folder}` makes one"
            )
        recipe = read_recipe(folder / RECIPE)
        try:
            facts = Facts.from_dict(json.loads((folder / FACTS).read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{folder / FACTS} is damaged ({error})") from None
        return cls(folder, recipe, facts)

    @staticmethod
    def is_there(folder: Path) -> bool:
        """Whether a run was started in this folder."""
        return (folder / FACTS).exists()

    @property
    def checkpoints(self) -> Checkpoints:
        """What was saved."""
        return Checkpoints(self.folder / CHECKPOINTS)

    def recipe_hash(self) -> str:
        """What tells this run's checkpoints from another's."""
        return hashlib.sha256(recipe_text(self.recipe).encode()).hexdigest()

    def last_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint; None before the first."""
        last = self.checkpoints.last()
        if last is not None and last.state.get("recipe") != self.recipe_hash():
            raise ValueError(f"{last.folder} is of a run with another recipe than {self.folder / RECIPE}; remove it")
        return last

    def checkpoint(self, which: str = "last") -> Checkpoint:
        """The ``last`` checkpoint, or the ``best`` on the validation images."""
        last = self.last_checkpoint()
        if last is None:
            raise ValueError(f"{self.folder} has no checkpoint yet; `singleshot train --resume {self.folder}` goes on")
        if which == "last":
            return last
        best = last.state.get("best")
        if not isinstance(best, dict):
            raise ValueError(
                f"{self.folder} has no best checkpoint: it was trained without validation images (--validation 0.1)"
            )
        try:
            step = int(best["step"])
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{last.folder} is damaged: its best step is {best}") from None
        return self.checkpoints.at(step)

    def load_model(self, which: str = "last") -> nn.Module:
        """The trained network in evaluation mode, on the CPU: one pass gives logits, their softmax the confidence."""
        model = self.new_model()
        self.checkpoint(which).load_weights(model)
        return model.eval()

    def refuse_other_data(self, dataset: Dataset) -> None:
        """The images must be those the run began with: their numbers, classes and pixel statistics tell."""
        if Facts.of(dataset, {}) != self.facts.without_place():
            raise ValueError(
                f"{self.folder} goes with other data: the images or classes of {self.recipe.dataset} are not those "
                "that it began with; bring them back, or start anew with another --output"
            )

    def new_model(self) -> nn.Module:
        """The network of this run before training, with weights from torch's random state."""
        from singleshot.models import create_model

        return create_model(
            self.recipe.model,
            num_classes=len(self.facts.class_names),
            in_channels=self.facts.channels,
            width=self.recipe.width,
            noise=self.recipe.noise,
        )

    def normalization(self, device: torch.device | str = "cpu") -> Normalization:
        """What brings uint8 images to what the network takes."""
        from singleshot.data.augmentation import Normalization

        return Normalization(self.facts.mean, self.facts.std, channels_last=self.recipe.channels_last, device=device)


def recipe_differences(one: Recipe, other: Recipe) -> list[str]:
    """The fields in which two recipes differ, with both values."""
    return [
        f"{field.name} is {getattr(one, field.name)!r} there and {getattr(other, field.name)!r} here"
        for field in fields(Recipe)
        if getattr(one, field.name) != getattr(other, field.name)
    ]
