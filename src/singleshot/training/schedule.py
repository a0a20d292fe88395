"""What step a run is at, and what that means: pure functions of the step, so that a resumed run needs no memory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from singleshot.data import Images
from singleshot.data.augmentation import Normalization, Shifts, shift_and_mirror
from singleshot.training.processes import Processes
from singleshot.training.recipe import Recipe


@dataclass(frozen=True)
class Schedule:
    """The steps of a run over this many training images."""

    recipe: Recipe
    images: int

    @property
    def batch(self) -> int:
        """Images per step. A set smaller than a batch is one batch."""
        return min(self.recipe.batch_size, self.images)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches only: the images left over are others in every epoch."""
        return self.images // self.batch

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return self.recipe.epochs * self.steps_per_epoch

    @cached_property
    def loss_begins(self) -> int:
        """The step from which on the recipe's loss is used; plain cross-entropy before it."""
        return self.steps - max(1, int(self.recipe.share * self.steps))

    @property
    def first_step(self) -> int:
        """Where a new run begins: what a trained start has done already is skipped."""
        return self.loss_begins if self.recipe.start_from is not None else 0

    def learning_rate(self, step: int) -> float:
        """The rate of this step: it falls at each milestone."""
        passed = sum(step >= round(milestone * self.steps) for milestone in self.recipe.milestones)
        return self.recipe.learning_rate * self.recipe.decay**passed

    def evaluation_is_due(self, epochs_done: int) -> bool:
        """Whether unseen images are looked at after this many epochs."""
        return epochs_done % self.recipe.evaluate_every == 0 or epochs_done == self.recipe.epochs


def derived_seed(seed: int, purpose: str, *numbers: int) -> int:
    """A seed of its own for everything that is random: independent of the others, and known without any history."""
    text = ":".join([purpose, str(seed), *map(str, numbers)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


class TrainingBatches:
    """Shuffled anew each epoch, cut into whole batches, each process taking its own part of every batch."""

    def __init__(
        self, part: Images, positions: Tensor, schedule: Schedule, normalization: Normalization, processes: Processes
    ) -> None:
        self.part = part
        self.positions = positions
        self.schedule = schedule
        self.normalization = normalization
        self.mine = processes.share_of(schedule.batch)
        self.device = processes.device
        self._epoch, self._order = -1, positions

    def at(self, step: int) -> tuple[Tensor, Tensor]:
        """Augmented images and labels of this step, on the device."""
        recipe, batch = self.schedule.recipe, self.schedule.batch
        epoch, place = divmod(step, self.schedule.steps_per_epoch)
        index = self._order_of(epoch)[place * batch : (place + 1) * batch][self.mine]
        generator = torch.Generator(self.device).manual_seed(derived_seed(recipe.seed, "augmentation", step))
        shifts = Shifts.draw(batch, padding=recipe.padding, mirror=recipe.mirror, generator=generator)[self.mine]
        images = self.part.images[index].to(self.device)  # as bytes: a quarter of what floats would be
        images = self.normalization(shift_and_mirror(images, shifts, padding=recipe.padding))
        return images, self.part.labels[index].to(self.device)

    def _order_of(self, epoch: int) -> Tensor:
        if epoch != self._epoch:
            seed = derived_seed(self.schedule.recipe.seed, "order", epoch)
            shuffled = torch.randperm(len(self.positions), generator=torch.Generator().manual_seed(seed))
            self._epoch, self._order = epoch, self.positions[shuffled]
        return self._order
