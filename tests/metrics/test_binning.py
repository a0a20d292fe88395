"""Equal-width bins compared with a search, value for value."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from singleshot.metrics.binning import bin_edges, bin_index

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def searched(values: Tensor, bins: int) -> Tensor:
    """The bin (lo, hi] by numpy's search among the inner edges, rounded to the dtype of the values."""
    inner = (torch.arange(1, bins, dtype=torch.float64) / bins).to(values.dtype)
    return torch.from_numpy(np.searchsorted(inner.double().numpy(), values.double().numpy(), side="left"))


def neighbours(values: Tensor) -> Tensor:
    """The values and the floating point numbers next to them, restricted to [0, 1]."""
    bits = values.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[values.dtype.itemsize])
    near = torch.cat([bits - 1, bits, bits + 1]).view(values.dtype)
    return near[(near >= 0) & (near <= 1)]


@settings(max_examples=150, deadline=None)
@given(
    dtype=st.sampled_from(DTYPES),
    bins=st.integers(1, 200) | st.sampled_from([255, 256, 257, 1000, 4096, 10_007, 100_003]),
    seed=st.integers(0, 2**32),
)
def test_bin_index_equals_a_search(dtype: torch.dtype, bins: int, seed: int) -> None:
    edges = bin_edges(bins).to(dtype)
    anywhere = torch.rand(1000, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)
    values = torch.cat([anywhere, edges, neighbours(edges[1:])])
    torch.testing.assert_close(bin_index(values, bins), searched(values, bins), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_value_of_half_precision(dtype: torch.dtype) -> None:
    values = torch.arange(2**15, dtype=torch.int16).view(dtype)
    values = values[values <= 1]
    for bins in (1, 2, 3, 7, 10, 15, 20, 31, 32, 33, 64, 100, 127, 256, 300, 511, 1000):
        torch.testing.assert_close(bin_index(values, bins), searched(values, bins), rtol=0, atol=0)


def test_the_ends_and_shapes() -> None:
    for dtype in DTYPES:
        above = 1 + torch.finfo(dtype).eps  # a value above 1 by rounding
        for bins in (1, 2, 20):
            index = bin_index(torch.tensor([0, torch.finfo(dtype).tiny, 1, above], dtype=dtype), bins)
            assert index.tolist() == [0, 0, bins - 1, bins - 1]
    assert bin_index(torch.tensor([]), 20).tolist() == []
    assert bin_index(torch.tensor([[0.05, 0.051], [0.5, 0.99]]), 20).tolist() == [[0, 1], [9, 19]]
