from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from singleshot.data import Images
from singleshot.data.augmentation import Normalization
from singleshot.training.distributed import Processes
from singleshot.training.recipe import Recipe
from singleshot.training.recipe_file import preset
from singleshot.training.schedule import Schedule, TrainingBatches, derived_seed

PAPER = preset("paper", model="resnet34", dataset="cifar100")
# First epoch, from 0, and the learning rate from there on.
RATES = [(0, 0.1), (60, 0.02), (120, 0.004), (160, 0.0008), (200, 0.00016), (250, 0.000032)]
COUNT = 50
RECIPE = Recipe(batch_size=8, epochs=4, seed=3, padding=2, mirror=True, image_size=8)


def test_learning_rate_of_the_paper_epoch_by_epoch() -> None:
    for images in (50_000, 64, 1, 1_000_003):
        schedule = Schedule(PAPER, images)
        for epoch in range(300):
            expected = [rate for begins, rate in RATES if begins <= epoch][-1]
            first, last = epoch * schedule.steps_per_epoch, (epoch + 1) * schedule.steps_per_epoch - 1
            rates = [schedule.learning_rate(first), schedule.learning_rate(last)]
            assert rates == pytest.approx([expected] * 2), (images, epoch)


@given(images=st.integers(1, 2_000_000), times=st.integers(1, 100), batch_size=st.integers(1, 4096))
def test_milestones_scale_with_the_epochs(images: int, times: int, batch_size: int) -> None:
    # In 15 epochs the milestones are at epochs 3, 6, 8, 10 and 12.5.
    schedule = Schedule(replace(PAPER, epochs=15 * times, batch_size=batch_size), images)
    for number, epoch in enumerate([3, 6, 8, 10]):
        step = epoch * times * schedule.steps_per_epoch
        assert schedule.learning_rate(step - 1) == pytest.approx(0.1 * 0.2**number)
        assert schedule.learning_rate(step) == pytest.approx(0.1 * 0.2 ** (number + 1))


@given(percent=st.integers(1, 99), images=st.integers(1, 3000))
def test_milestones_that_are_no_binary_fractions_are_exact(percent: int, images: int) -> None:
    # 0.55 × 100 is 55.00000000000001 in floating point.
    schedule = Schedule(Recipe(epochs=100, batch_size=1, milestones=(percent / 100,)), images)
    step = percent * images
    assert schedule.learning_rate(step - 1) > schedule.learning_rate(step) == schedule.learning_rate(step + 1)


def test_without_milestones_the_rate_is_constant() -> None:
    schedule = Schedule(replace(PAPER, milestones=(), epochs=3, learning_rate=0.3), 640)
    assert {schedule.learning_rate(step) for step in range(schedule.steps)} == {0.3}


def test_an_epoch_is_complete_batches_and_a_small_set_is_one_batch() -> None:
    for images, batch, steps_per_epoch in [(640, 64, 10), (703, 64, 10), (64, 64, 1), (63, 63, 1), (1, 1, 1)]:
        schedule = Schedule(replace(PAPER, batch_size=64, epochs=7), images)
        found = (schedule.batch, schedule.steps_per_epoch, schedule.steps)
        assert found == (batch, steps_per_epoch, 7 * steps_per_epoch), images


def test_steps_of_the_last_share() -> None:
    for last_share, start_from, first_loss_step, first_step in [
        (1.0, None, 0, 0),
        (0.2, None, 80, 0),  # cross-entropy first
        (0.2, "runs/base", 80, 80),  # done by the run that it starts from
        (1.0, "runs/base", 0, 0),
        (1e-9, "runs/base", 99, 99),  # at least one step
    ]:
        schedule = Schedule(Recipe(epochs=10, batch_size=64, last_share=last_share, start_from=start_from), 640)
        assert schedule.steps == 100
        assert (schedule.first_loss_step, schedule.first_step) == (first_loss_step, first_step)


def test_the_last_epoch_is_always_evaluated() -> None:
    schedule = Schedule(Recipe(epochs=10, evaluate_every=4), 640)
    assert [epoch for epoch in range(1, 11) if schedule.is_evaluated(epoch)] == [4, 8, 10]


def test_seeds_are_distinct_and_valid_for_torch() -> None:
    purposes = ["weights", "order", "augmentation", "noise"]
    seeds = [
        derived_seed(seed, purpose, *numbers)
        for seed, purpose in itertools.product([0, 1, 11, 2**63 - 1], purposes)
        for numbers in [(), *itertools.product(range(12)), *itertools.product(range(12), range(12))]
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
    torch.Generator().manual_seed(max(seeds))


def test_seeds_are_the_same_in_every_version() -> None:
    """Otherwise older runs could not be resumed."""
    assert derived_seed(0, "weights") == 4_980_531_129_943_546_090
    assert derived_seed(7, "noise", 123, 1) == 1_498_714_633_960_359_754


def part() -> Images:
    """Images whose label is their position."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (COUNT, 3, 8, 8), generator=generator, dtype=torch.uint8)
    return Images(images, torch.arange(COUNT))


def batches(
    recipe: Recipe = RECIPE, positions: Tensor | None = None, rank: int = 0, processes: int = 1
) -> TrainingBatches:
    positions = torch.arange(COUNT) if positions is None else positions
    normalization = Normalization((0.5,) * 3, (0.25,) * 3)
    held_out = torch.tensor(sorted(set(range(COUNT)) - set(positions.tolist())), dtype=torch.long)
    schedule, group = Schedule(recipe, len(positions)), Processes(rank=rank, count=processes)
    return TrainingBatches(part(), positions, held_out, schedule, normalization, group)


def test_an_epoch_has_no_image_twice_and_its_own_order() -> None:
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
    assert set().union(*epochs) == set(positions.tolist())  # another image is left out in each epoch


def test_the_parts_of_all_processes_are_the_batch_of_one() -> None:
    alone = batches()
    for processes in (2, 4):
        together = [batches(rank=rank, processes=processes) for rank in range(processes)]
        for step in (0, 5, 17):
            images, labels = alone.at(step)
            parts = [each.at(step) for each in together]
            assert torch.equal(torch.cat([part_images for part_images, _ in parts]), images)
            assert torch.equal(torch.cat([part_labels for _, part_labels in parts]), labels)
    with pytest.raises(ValueError, match="8 images cannot be divided equally among 3 processes; choose a --batch-size"):
        batches(processes=3)


def test_a_step_has_the_same_images_in_any_order_of_access() -> None:
    forward, elsewhere = batches(), batches()
    expected = [forward.at(step) for step in range(forward.schedule.steps)]
    generator = torch.Generator().manual_seed(5)
    for step in [23, 0, 0, *torch.randperm(len(expected), generator=generator).tolist()]:
        torch.rand(3)  # the global random state does not matter
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


TUNED = replace(RECIPE, loss="vwci", strength="auto", epochs=20, last_share=0.6, give_back=0.25)


def test_held_out_images_are_trained_on_in_the_last_share_only() -> None:
    positions = torch.arange(0, COUNT, 2)
    found = batches(recipe=TUNED, positions=positions)
    schedule = found.schedule
    assert schedule.steps == 20 * (25 // 8)
    assert schedule.give_back_step == schedule.steps - schedule.steps // 4
    images = [set(found.at(step)[1].tolist()) for step in range(schedule.steps)]
    assert set.union(*images[: schedule.give_back_step]) == set(positions.tolist())
    after = images[schedule.give_back_step :]
    per_epoch = COUNT // 8
    assert all(len(one) == 8 for one in after)
    assert len(set.union(*after[:per_epoch])) == 8 * per_epoch  # each image once per epoch of all images
    assert set.union(*after) == set(range(COUNT))
    again = batches(recipe=TUNED, positions=positions)
    assert set(again.at(schedule.steps - 1)[1].tolist()) == images[-1]  # of the step alone


def test_a_strength_is_tuned_several_times_per_epoch_until_images_are_given_back() -> None:
    schedule = Schedule(replace(TUNED, batch_size=1), 400)
    tuned = [step for step in range(schedule.steps + 1) if schedule.is_tuned_at(step)]
    first = schedule.first_loss_step
    assert tuned[:3] == [first + 100, first + 200, first + 300]
    assert tuned[-1] == schedule.give_back_step
    few = Schedule(TUNED, 40)  # five steps per epoch
    tuned = [step for step in range(few.steps + 1) if few.is_tuned_at(step)]
    assert tuned == [40 + 16, 40 + 32, 75]
    kept = Schedule(replace(TUNED, give_back=0.0), 40)
    assert kept.is_tuned_at(kept.steps)
    assert not any(Schedule(RECIPE, 400).is_tuned_at(step) for step in range(200))


def test_adafocal_is_updated_after_every_epoch_from_all_held_out_images() -> None:
    recipe, held_out = replace(RECIPE, loss="adafocal", epochs=3, batch_size=4).resolved(), torch.arange(500)
    schedule = Schedule(recipe, 400)
    assert [step for step in range(schedule.steps + 1) if schedule.is_tuned_at(step)] == [100, 200, 300]
    assert all(torch.equal(schedule.tuning_part(step, held_out), held_out) for step in (100, 200, 300))


def test_the_strength_of_the_shortest_run_is_tuned() -> None:
    for steps, share in itertools.product(range(1, 40), (0.25, 0.5)):
        schedule = Schedule(replace(TUNED, batch_size=1, epochs=steps, last_share=share, give_back=0.2), 1)
        assert any(schedule.is_tuned_at(step) for step in range(steps + 1)), steps
        assert schedule.first_loss_step < schedule.give_back_step <= steps
        assert schedule.give_back_step < steps or schedule.first_loss_step == steps - 1, "nothing is given back"


def test_many_held_out_images_tune_in_two_halves() -> None:
    schedule, held_out = Schedule(replace(TUNED, batch_size=1), 400), torch.arange(201)
    tuned = [step for step in range(schedule.steps + 1) if schedule.is_tuned_at(step)]
    parts = [schedule.tuning_part(step, held_out) for step in tuned]
    for one, other in itertools.pairwise(parts[:-1]):
        assert sorted([*one.tolist(), *other.tolist()]) == held_out.tolist()
    assert torch.equal(parts[-1], held_out)
    assert torch.equal(schedule.tuning_part(tuned[0], held_out[:199]), held_out[:199])
