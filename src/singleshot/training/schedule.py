"""The steps of a run and their batches, as functions of the step alone, so that a run can resume at any step."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from singleshot.common.splits import balanced_order, split_training
from singleshot.data import Dataset, Images, load_dataset
from singleshot.data.augmentation import Normalization, Shifts, shift_and_mirror
from singleshot.training.distributed import Processes
from singleshot.training.recipe import Recipe

UPDATES_PER_EPOCH = 4  # of a strength that is tuned
MIN_STEPS_BETWEEN_UPDATES = 16  # a network needs some steps to respond
MIN_TO_HALVE = 200  # held-out images, from which on an update takes half of them, for half the time


@dataclass(frozen=True)
class Schedule:
    """The steps of a run over this many training images."""

    recipe: Recipe
    images: int

    @property
    def batch(self) -> int:
        """Images per step; all of them if they are fewer than a batch."""
        return min(self.recipe.batch_size, self.images)

    @property
    def steps_per_epoch(self) -> int:
        """Complete batches per epoch."""
        return self.images // self.batch

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return self.recipe.epochs * self.steps_per_epoch

    @cached_property
    def first_loss_step(self) -> int:
        """First step that uses the recipe's loss; earlier ones use cross-entropy."""
        return self.steps - max(1, int(self.recipe.share * self.steps))

    @property
    def first_step(self) -> int:
        """First step of a new run: a run that starts from trained weights skips the steps before its loss."""
        return self.first_loss_step if self.recipe.start_from is not None else 0

    @cached_property
    def give_back_step(self) -> int:
        """First step that trains on the held-out images as well; the number of steps if none does.

        At least one step has the loss before, so that the strength is tuned; a run of two steps gives nothing back.
        """
        if not self.recipe.give_back:
            return self.steps
        return max(self.first_loss_step + 1, self.steps - max(1, int(self.recipe.give_back * self.steps)))

    def is_tuned_at(self, step: int) -> bool:
        """Whether the loss is tuned after this many steps: several times per epoch, until images are given back."""
        if not (self.recipe.is_tuned and self.first_loss_step < step <= self.give_back_step):
            return False
        return (step - self.first_loss_step) % self._update_interval == 0 or step == self.give_back_step

    def tuning_part(self, step: int, held_out: Tensor) -> Tensor:
        """Return the held-out positions for an update: one half and the other in turn, and all for the last update."""
        if len(held_out) < MIN_TO_HALVE or step == self.give_back_step or self.recipe.loss == "adafocal":
            return held_out
        return held_out[(step - self.first_loss_step) // self._update_interval % 2 :: 2]

    @property
    def _update_interval(self) -> int:
        if self.recipe.loss == "adafocal":  # its paper updates once per epoch, from all held-out images
            return self.steps_per_epoch
        return max(MIN_STEPS_BETWEEN_UPDATES, self.steps_per_epoch // UPDATES_PER_EPOCH)

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step."""
        passed = sum(step >= round(milestone * self.steps) for milestone in self.recipe.milestones)
        return self.recipe.learning_rate * self.recipe.decay**passed

    def is_evaluated(self, epoch: int) -> bool:
        """Whether held-out images are evaluated after this epoch, counted from 1."""
        return epoch % self.recipe.evaluate_every == 0 or epoch == self.recipe.epochs


def load_images(recipe: Recipe, *, data_root: Path | None = None, skip_unreadable: bool = False) -> Dataset:
    """Load the data set of a recipe, in its image size and with its classes."""
    return load_dataset(
        recipe.dataset,
        data_root=data_root,
        image_size=recipe.image_size,
        skip_unreadable=skip_unreadable,
        classes=recipe.classes,
    )


def trained_and_held_out(recipe: Recipe, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the positions of the images that a run trains on, and of those that it never trains on."""
    trained, held_out = split_training(labels, validation=recipe.validation, train_images=recipe.train_images)
    if recipe.give_back:
        return torch.cat([trained, held_out]).sort().values, held_out[:0]
    return trained, held_out


def unused_positions(recipe: Recipe, labels: Tensor) -> Tensor:
    """Return the positions of training images that the run does not use, in a balanced order."""
    return balanced_order(labels)[recipe.train_images or len(labels) :]


def derived_seed(seed: int, purpose: str, *numbers: int) -> int:
    """Return an independent seed for each purpose and step."""
    text = ":".join([purpose, str(seed), *map(str, numbers)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


@dataclass
class TrainingBatches:
    """Complete batches of shuffled images, in another order each epoch; each process takes its part of every batch."""

    part: Images
    positions: Tensor
    held_out: Tensor  # positions that are trained on as well from `Schedule.give_back_step` on
    schedule: Schedule
    normalization: Normalization
    processes: Processes

    def __post_init__(self) -> None:
        self.slice = self.processes.batch_slice(self.schedule.batch)
        self._epoch, self._order = ("", -1), self.positions

    def at(self, step: int) -> tuple[Tensor, Tensor]:
        """Return the augmented images and labels of a step, on the device."""
        recipe, batch, device = self.schedule.recipe, self.schedule.batch, self.processes.device
        index = self._positions_at(step, batch)[self.slice]
        generator = torch.Generator(device).manual_seed(derived_seed(recipe.seed, "augmentation", step))
        shifts = Shifts.draw(batch, padding=recipe.padding, mirror=recipe.mirror, generator=generator)[self.slice]
        images = self.part.images[index].to(device, non_blocking=True)  # uint8, a quarter of the size of floats
        images = self.normalization(shift_and_mirror(images, shifts, padding=recipe.padding))
        return images, self.part.labels[index].to(device, non_blocking=True)

    def _positions_at(self, step: int, batch: int) -> Tensor:
        purpose, positions, since = "order", self.positions, step
        if step >= self.schedule.give_back_step:
            purpose, since = "order with all images", step - self.schedule.give_back_step
            positions = torch.cat([self.positions, self.held_out])
        epoch, number = divmod(since, len(positions) // batch)
        if (purpose, epoch) != self._epoch:
            seed = derived_seed(self.schedule.recipe.seed, purpose, epoch)
            shuffled = torch.randperm(len(positions), generator=torch.Generator().manual_seed(seed))
            self._epoch, self._order = (purpose, epoch), positions[shuffled]
        return self._order[number * batch : (number + 1) * batch]
