"""Shifted images and the ranking of errors, against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from singleshot.evaluation.shift import SHIFTS, STRENGTHS, shifted
from singleshot.metrics.selective import auroc


@given(
    scores=arrays(np.float64, 12, elements=st.integers(0, 5).map(float)),
    is_positive=arrays(np.bool_, 12),
)
def test_auroc_counts_pairs(scores: np.ndarray, is_positive: np.ndarray) -> None:
    pairs = [
        1.0 if one > other else 0.5 if one == other else 0.0
        for one in scores[is_positive]
        for other in scores[~is_positive]
    ]
    found = auroc(scores, is_positive)
    assert found == (pytest.approx(np.mean(pairs)) if pairs else None)


@pytest.mark.parametrize("shift", SHIFTS)
def test_a_shift_grows_with_its_strength_and_is_the_same_every_time(shift: str) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (4, 3, 16, 16), generator=generator, dtype=torch.uint8)
    distances = []
    for strength in range(1, STRENGTHS + 1):
        changed = shifted(images, shift, strength)
        assert changed.shape == images.shape
        assert changed.dtype == torch.uint8
        assert torch.equal(changed, shifted(images, shift, strength))
        distances.append(float((changed.float() - images.float()).abs().mean()))
    assert distances[0] > 0
    assert distances == sorted(distances)


def test_shifts_do_what_they_are_named_after() -> None:
    plain = torch.full((1, 3, 9, 9), 100, dtype=torch.uint8)
    for shift in ("rotation", "blur", "contrast"):  # an image of one colour stays as it is
        assert torch.equal(shifted(plain, shift, 5), plain)
    noise = shifted(plain.expand(200, -1, -1, -1), "noise", 3).float() - 100
    assert float(noise.std()) == pytest.approx(30, rel=0.02)
    edge = torch.zeros(1, 1, 33, 33, dtype=torch.uint8)
    edge[..., 16:] = 255
    weights = np.exp(-(np.arange(-16, 17) ** 2) / (2 * (0.025 * 2 * 33) ** 2))
    expected = 255 * np.cumsum(weights / weights.sum())  # of the kernel that lies on the bright side
    blurred = shifted(edge, "blur", 2)[0, 0]
    np.testing.assert_allclose(blurred[20, 8:25], expected[8:25], atol=1)
    line = torch.zeros(1, 1, 33, 33, dtype=torch.uint8)
    line[0, 0, :, 16] = 255
    turned = shifted(line, "rotation", 5).float()[0, 0]
    slope = (turned[4].argmax() - turned[28].argmax()) / 24  # tan 30°
    assert abs(float(slope)) == pytest.approx(np.tan(np.pi / 6), abs=0.05)
