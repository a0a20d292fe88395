"""The quick looks at values find what a look at each of them finds."""

from __future__ import annotations

import pytest
import torch

from singleshot.common.checks import check_labels, finite_rows

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_row_that_is_not_finite_is_found(dtype: torch.dtype, bad: float) -> None:
    rows = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert finite_rows(rows).tolist() == [True] * 50
    rows[7, 1] = bad
    rows[9] = torch.tensor([torch.inf, -torch.inf, 0])  # cancel each other, but to NaN
    assert finite_rows(rows).tolist() == [row not in {7, 9} for row in range(50)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_finite_rows_whose_sum_overflows_are_finite(dtype: torch.dtype) -> None:
    assert finite_rows(torch.full((50, 3), torch.finfo(dtype).max, dtype=dtype)).tolist() == [True] * 50


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8])
def test_labels_outside_the_classes_are_named(dtype: torch.dtype) -> None:
    labels = torch.tensor([0, 4, 2, 5], dtype=dtype)
    assert check_labels(labels, 4, 6).tolist() == [0, 4, 2, 5]
    with pytest.raises(ValueError, match=r"2 of 4 do not, the first is labels\[1\] = 4"):
        check_labels(labels, 4, 4)
    assert check_labels(labels, 4, 5, ignore_index=5).tolist() == [0, 4, 2, 5]
    with pytest.raises(ValueError, match=r"lie in \[0, 6\).* labels\[0\] = -1"):
        check_labels(torch.tensor([-1, 0]), 2, 6, ignore_index=-2)
