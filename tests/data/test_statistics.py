from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from singleshot.data.decoding import PixelCounts


@given(
    arrays(np.uint8, st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))),
    st.integers(0, 6),
)
def test_batches_give_the_mean_and_deviation_of_the_whole(images: np.ndarray[Any, Any], cut: int) -> None:
    counts = PixelCounts(images.shape[1])
    for part in (images[:cut], images[cut:]):
        counts.add(part)
    whole = images.astype(np.float64) / 255
    np.testing.assert_allclose(counts.mean(), whole.mean((0, 2, 3)), atol=1e-12)
    np.testing.assert_allclose(counts.std(), np.maximum(whole.std((0, 2, 3)), 1 / 255), atol=1e-7)


def test_images_without_contrast_can_be_divided_by_their_deviation() -> None:
    counts = PixelCounts(1)
    counts.add(np.full((2, 1, 3, 3), 7, np.uint8))
    assert counts.std() == pytest.approx((1 / 255,))
