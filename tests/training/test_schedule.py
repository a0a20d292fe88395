from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from singleshot.training.recipe import Recipe
from singleshot.training.recipe_file import preset
from singleshot.training.schedule import Schedule, derived_seed

PAPER = preset("paper", model="resnet34", dataset="cifar100")
# First epoch, from 0, and the learning rate from there on.
RATES = [(0, 0.1), (60, 0.02), (120, 0.004), (160, 0.0008), (200, 0.00016), (250, 0.000032)]


@pytest.mark.parametrize("images", [50_000, 45_000, 100_000, 64, 1, 1_000_003])
def test_the_learning_rate_of_the_paper_epoch_by_epoch(images: int) -> None:
    schedule = Schedule(PAPER, images)
    for epoch in range(300):
        expected = [rate for begins, rate in RATES if begins <= epoch][-1]
        first, last = epoch * schedule.steps_per_epoch, (epoch + 1) * schedule.steps_per_epoch - 1
        assert schedule.learning_rate(first) == pytest.approx(expected)
        assert schedule.learning_rate(last) == pytest.approx(expected)


@given(images=st.integers(1, 2_000_000), times=st.integers(1, 100), batch_size=st.integers(1, 4096))
def test_milestones_scale_with_the_epochs_and_fall_on_the_very_step(images: int, times: int, batch_size: int) -> None:
    # In 15 epochs the milestones are at epochs 3, 6, 8, 10 and 12.5.
    schedule = Schedule(replace(PAPER, epochs=15 * times, batch_size=batch_size), images)
    for number, epoch in enumerate([3, 6, 8, 10]):
        step = epoch * times * schedule.steps_per_epoch
        assert schedule.learning_rate(step - 1) == pytest.approx(0.1 * 0.2**number)
        assert schedule.learning_rate(step) == pytest.approx(0.1 * 0.2 ** (number + 1))


@given(percent=st.integers(1, 99), images=st.integers(1, 3000))
def test_a_share_that_is_no_binary_fraction_falls_on_the_very_step_too(percent: int, images: int) -> None:
    # 0.55 × 100 is 55.00000000000001 in floating point.
    schedule = Schedule(Recipe(epochs=100, batch_size=1, milestones=(percent / 100,)), images)
    step = percent * images
    assert schedule.learning_rate(step - 1) > schedule.learning_rate(step) == schedule.learning_rate(step + 1)


def test_no_milestones_is_a_constant_rate() -> None:
    schedule = Schedule(replace(PAPER, milestones=(), epochs=3, learning_rate=0.3), 640)
    assert {schedule.learning_rate(step) for step in range(schedule.steps)} == {0.3}


@pytest.mark.parametrize(
    ("images", "batch", "steps_per_epoch"),
    [(640, 64, 10), (641, 64, 10), (703, 64, 10), (64, 64, 1), (63, 63, 1), (1, 1, 1)],
)
def test_an_epoch_is_whole_batches_and_a_small_set_is_one_batch(images: int, batch: int, steps_per_epoch: int) -> None:
    schedule = Schedule(replace(PAPER, batch_size=64, epochs=7), images)
    assert (schedule.batch, schedule.steps_per_epoch, schedule.steps) == (batch, steps_per_epoch, 7 * steps_per_epoch)


@pytest.mark.parametrize(
    ("last_share", "start_from", "loss_begins", "first_step"),
    [
        (1.0, None, 0, 0),
        (0.2, None, 80, 0),  # plain cross-entropy first
        (0.2, "runs/base", 80, 80),  # which the trained start has done already
        (1.0, "runs/base", 0, 0),
        (1e-9, "runs/base", 99, 99),  # one step at least
    ],
)
def test_the_loss_of_the_last_share(
    last_share: float, start_from: str | None, loss_begins: int, first_step: int
) -> None:
    schedule = Schedule(Recipe(epochs=10, batch_size=64, last_share=last_share, start_from=start_from), 640)
    assert schedule.steps == 100
    assert (schedule.loss_begins, schedule.first_step) == (loss_begins, first_step)


def test_the_last_epoch_is_always_looked_at() -> None:
    schedule = Schedule(Recipe(epochs=10, evaluate_every=4), 640)
    assert [epoch for epoch in range(1, 11) if schedule.evaluation_is_due(epoch)] == [4, 8, 10]


def test_seeds_are_all_different_and_fit_torch() -> None:
    purposes = ["weights", "order", "augmentation", "noise"]
    seeds = [
        derived_seed(seed, purpose, *numbers)
        for seed, purpose in itertools.product([0, 1, 11, 2**63 - 1], purposes)
        for numbers in [(), *itertools.product(range(12)), *itertools.product(range(12), range(12))]
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
    torch.Generator().manual_seed(max(seeds))


def test_seeds_are_the_same_on_every_machine_and_in_every_version() -> None:
    """Runs from before a change of this function could not be continued after it."""
    assert derived_seed(0, "weights") == 4_980_531_129_943_546_090
    assert derived_seed(7, "noise", 123, 1) == 1_498_714_633_960_359_754
