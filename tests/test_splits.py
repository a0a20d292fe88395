from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from singleshot.common.splits import balanced_order, split_training

# Number of images of each class, including classes with one image or none.
class_sizes = st.lists(st.integers(0, 60), min_size=1, max_size=8).filter(lambda sizes: sum(sizes) > 0)


def shuffled_labels(sizes: list[int]) -> Tensor:
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))]


@settings(max_examples=50, deadline=None)
@given(class_sizes)
def test_every_prefix_of_the_order_is_balanced(sizes: list[int]) -> None:
    labels = shuffled_labels(sizes)
    order = balanced_order(labels)
    assert sorted(order.tolist()) == list(range(len(labels)))
    seen = torch.nn.functional.one_hot(labels[order], len(sizes)).cumsum(0).double()
    share = torch.tensor(sizes, dtype=torch.float64) / sum(sizes)
    expected = torch.arange(1, len(labels) + 1).double()[:, None] * share
    # Each class is at most one image ahead of or behind the common position.
    assert bool(((seen - expected).abs() <= 1 + len(sizes) * share + 1e-9).all())


@settings(max_examples=60, deadline=None)
@given(class_sizes, st.floats(0, 0.95), st.one_of(st.none(), st.integers(1, 500)))
def test_splits_are_disjoint_and_use_the_same_images(
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


def test_smaller_subsets_are_nested() -> None:
    labels = shuffled_labels([50, 50, 50])
    parts = [set(split_training(labels, validation=0.0, train_images=count)[0].tolist()) for count in (10, 40, 100)]
    assert parts[0] < parts[1] < parts[2]


def test_validation_split_is_balanced() -> None:
    labels = shuffled_labels([100] * 10)
    trained, validated = split_training(labels, validation=0.1, train_images=None)
    assert all(8 <= count <= 12 for count in torch.bincount(labels[validated]).tolist())
    assert all(88 <= count <= 92 for count in torch.bincount(labels[trained]).tolist())


def test_too_few_and_too_many_validation_images() -> None:
    for validation, message in [(0.01, "validation=0.01 of 30 training images"), (0.99, "validation=0.99 of 30")]:
        with pytest.raises(ValueError, match=message):
            split_training(torch.arange(30) % 3, validation=validation, train_images=None)
