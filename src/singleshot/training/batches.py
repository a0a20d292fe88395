"""The images of each step: a function of the seed and the step alone, whatever came before and whoever asks."""

from __future__ import annotations

import torch
from torch import Tensor

from singleshot.data import Images
from singleshot.data.augmentation import Normalization, Shifts, shift_and_mirror
from singleshot.training.processes import Processes
from singleshot.training.schedule import Schedule, derived_seed


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
