from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from singleshot.common.splits import balanced_order, split_training

# How many images there are of each class: even, lopsided, a class of one image, a class of none.
class_sizes = st.lists(st.integers(0, 60), min_size=1, max_size=8).filter(lambda sizes: sum(sizes) > 0)


def shuffled_labels(sizes: list[int]) -> Tensor:
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))]


@given(class_sizes)
def test_every_beginning_of_the_order_has_each_class_in_proportion(sizes: list[int]) -> None:
    labels = shuffled_labels(sizes)
    order = balanced_order(labels)
    assert sorted(order.tolist()) == list(range(len(labels)))
    seen = torch.nn.functional.one_hot(labels[order], len(sizes)).cumsum(0).double()
    share = torch.tensor(sizes, dtype=torch.float64) / sum(sizes)
    expected = torch.arange(1, len(labels) + 1).double()[:, None] * share
    # Each class runs at most one image ahead of, or behind, the place that all have reached together.
    assert bool(((seen - expected).abs() <= 1 + len(sizes) * share + 1e-9).all())


@given(class_sizes, st.floats(0, 0.95), st.one_of(st.none(), st.integers(1, 500)))
def test_the_parts_are_disjoint_and_together_what_would_be_trained_on_alone(
    sizes: list[int], validation: float, train_images: int | None
) -> None:
    labels = shuffled_labels(sizes)
    used = min(len(labels), train_images or len(labels))
    held_out = round(validation * used)
    if (validation and not held_out) or held_out == used:
        with pytest.raises(ValueError, match=f"of {used} training images"):
            split_training(labels, validation=validation, train_images=train_images)
        return
    trained, validated = split_training(labels, validation=validation, train_images=train_images)
    alone, nothing = split_training(labels, validation=0.0, train_images=train_images)
    assert sorted([*trained.tolist(), *validated.tolist()]) == alone.tolist()
    assert (len(alone), len(validated), len(nothing)) == (used, held_out, 0)
    for part in (trained, validated):
        assert part.tolist() == sorted(part.tolist())


def test_fewer_images_are_the_beginning_of_more() -> None:
    labels = shuffled_labels([50, 50, 50])
    parts = [set(split_training(labels, validation=0.0, train_images=count)[0].tolist()) for count in (10, 40, 100)]
    assert parts[0] < parts[1] < parts[2]


def test_a_tenth_of_balanced_classes_is_a_tenth_of_each() -> None:
    labels = shuffled_labels([100] * 10)
    trained, validated = split_training(labels, validation=0.1, train_images=None)
    assert all(8 <= count <= 12 for count in torch.bincount(labels[validated]).tolist())
    assert all(88 <= count <= 92 for count in torch.bincount(labels[trained]).tolist())


@pytest.mark.parametrize(
    ("validation", "message"),
    [(0.01, r"validation=0.01 of 30 training images is not one image"), (0.99, "leaves none to train on")],
)
def test_too_few_and_too_many_are_refused(validation: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        split_training(torch.arange(30) % 3, validation=validation, train_images=None)
