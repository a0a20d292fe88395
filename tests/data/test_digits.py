from __future__ import annotations

import pytest
import torch

from singleshot.data import load_digits, split_digits


def test_load_digits() -> None:
    digits = load_digits()
    assert digits.images.shape == (1797, 1, 8, 8)
    assert digits.images.dtype == torch.uint8
    assert (int(digits.images.min()), int(digits.images.max())) == (0, 255)
    assert torch.bincount(digits.labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    normalized = digits.normalized()
    assert (float(normalized.min()), float(normalized.max())) == (-1.0, 1.0)


def test_splits_are_disjoint_and_the_test_half_is_fixed() -> None:
    def rows(images: torch.Tensor) -> set[bytes]:
        return {bytes(image.flatten().tolist()) for image in images}

    first, second = split_digits(30, seed=0), split_digits(30, seed=1)
    assert torch.equal(first.test.images, second.test.images)
    assert rows(first.train.images) != rows(second.train.images)
    assert torch.bincount(first.train.labels).tolist() == [3] * 10
    assert [len(first.train), len(first.validation), len(first.test)] == [30, 868, 899]
    parts = [rows(part.images) for part in (first.train, first.validation, first.test)]
    duplicates = 1797 - len(rows(load_digits().images))
    assert len(parts[0] & parts[1]) + len(parts[0] & parts[2]) + len(parts[1] & parts[2]) <= duplicates


def test_invalid_number_of_training_images() -> None:
    for images in (9, 890):
        with pytest.raises(ValueError, match=f"train_images must be in .*got {images}"):
            split_digits(images, seed=0)
