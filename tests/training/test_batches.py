from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from singleshot.data import Images
from singleshot.data.augmentation import Normalization
from singleshot.training.processes import Processes
from singleshot.training.recipe import Recipe
from singleshot.training.schedule import Schedule, TrainingBatches

COUNT = 50
RECIPE = Recipe(batch_size=8, epochs=4, seed=3, padding=2, mirror=True, image_size=8)


def part() -> Images:
    """Every image has its own position for a label, so that it can be told which ones came."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (COUNT, 3, 8, 8), generator=generator, dtype=torch.uint8)
    return Images(images, torch.arange(COUNT))


def batches(
    recipe: Recipe = RECIPE, positions: Tensor | None = None, rank: int = 0, processes: int = 1
) -> TrainingBatches:
    positions = torch.arange(COUNT) if positions is None else positions
    normalization = Normalization((0.5,) * 3, (0.25,) * 3)
    return TrainingBatches(
        part(), positions, Schedule(recipe, len(positions)), normalization, Processes(rank=rank, count=processes)
    )


def test_an_epoch_is_whole_batches_that_see_no_image_twice_in_an_order_of_its_own() -> None:
    positions = torch.arange(0, COUNT, 2)  # every second image is held out
    found = batches(positions=positions)
    per_epoch = found.schedule.steps_per_epoch
    assert per_epoch == 3
    epochs = []
    for epoch in range(4):
        steps = [found.at(epoch * per_epoch + place)[1].tolist() for place in range(per_epoch)]
        assert [len(step) for step in steps] == [8] * per_epoch
        seen = [position for step in steps for position in step]
        assert len(set(seen)) == len(seen)
        assert set(seen) <= set(positions.tolist())
        epochs.append(seen)
    assert len({tuple(seen) for seen in epochs}) == 4
    assert set().union(*epochs) == set(positions.tolist())  # the one left over is another in each epoch


@pytest.mark.parametrize("processes", [2, 4])
def test_the_parts_of_all_processes_are_the_batch_of_one_augmentation_included(processes: int) -> None:
    alone = batches()
    together = [batches(rank=rank, processes=processes) for rank in range(processes)]
    for step in (0, 5, 17):
        images, labels = alone.at(step)
        parts = [each.at(step) for each in together]
        assert torch.equal(torch.cat([part_images for part_images, _ in parts]), images)
        assert torch.equal(torch.cat([part_labels for _, part_labels in parts]), labels)


def test_a_batch_that_cannot_be_shared_equally_is_refused() -> None:
    with pytest.raises(ValueError, match=r"8 images cannot be shared equally by 3 processes; choose a --batch-size"):
        batches(processes=3)


def test_a_step_gives_the_same_images_whatever_was_asked_for_before() -> None:
    forward, elsewhere = batches(), batches()
    expected = [forward.at(step) for step in range(forward.schedule.steps)]
    generator = torch.Generator().manual_seed(5)
    for step in [23, 0, 0, *torch.randperm(len(expected), generator=generator).tolist()]:
        torch.rand(3)  # nor does the random state of the process matter
        images, labels = elsewhere.at(step)
        assert torch.equal(images, expected[step][0])
        assert torch.equal(labels, expected[step][1])


def test_each_seed_has_its_own_order_and_each_step_its_own_augmentation() -> None:
    assert batches().at(0)[1].tolist() != batches(replace(RECIPE, seed=4)).at(0)[1].tolist()
    one_image = replace(RECIPE, batch_size=1, image_size=8)
    found = batches(one_image, positions=torch.tensor([7]))
    looks = [found.at(step)[0] for step in range(4)]
    assert any(not torch.equal(looks[0], look) for look in looks[1:])
    still = batches(replace(one_image, padding=0, mirror=False), positions=torch.tensor([7]))
    expected = (part().images[7:8].double() / 255 - 0.5) / 0.25
    for step in range(4):
        assert torch.allclose(still.at(step)[0].double(), expected, atol=1e-6)


def test_a_set_smaller_than_a_batch_is_one_batch_each_epoch() -> None:
    found = batches(replace(RECIPE, batch_size=64), positions=torch.arange(5))
    assert [sorted(found.at(step)[1].tolist()) for step in range(4)] == [[0, 1, 2, 3, 4]] * 4
