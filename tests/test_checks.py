"""Argument checks, and values made safe for JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch

import singleshot as ss
from singleshot.common.checks import (
    as_tensor,
    check_choice,
    check_labels,
    check_range,
    check_size,
    finite_rows,
)
from singleshot.common.text import jsonable


def test_rows_that_are_not_finite_are_found_in_every_dtype() -> None:
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        for bad in (torch.nan, torch.inf, -torch.inf):
            rows = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)).to(dtype)
            assert finite_rows(rows).tolist() == [True] * 50
            rows[7, 1] = bad
            rows[9] = torch.tensor([torch.inf, -torch.inf, 0])  # these cancel to NaN
            assert finite_rows(rows).tolist() == [row not in {7, 9} for row in range(50)], (dtype, bad)
        overflowing = torch.full((50, 3), torch.finfo(dtype).max, dtype=dtype)
        assert finite_rows(overflowing).tolist() == [True] * 50, dtype


def test_labels_outside_the_classes_are_named() -> None:
    for dtype in (torch.int64, torch.int8, torch.uint8):
        labels = torch.tensor([0, 4, 2, 5], dtype=dtype)
        assert check_labels(labels, 4, 6).tolist() == [0, 4, 2, 5]
        with pytest.raises(ValueError, match=r"2 of 4 do not, the first is labels\[1\] = 4"):
            check_labels(labels, 4, 4)
        assert check_labels(labels, 4, 5, ignore_index=5).tolist() == [0, 4, 2, 5]
    with pytest.raises(ValueError, match=r"lie in \[0, 6\).* labels\[0\] = -1"):
        check_labels(torch.tensor([-1, 0]), 2, 6, ignore_index=-2)


def test_a_wrong_type_is_a_type_error_and_a_wrong_value_a_value_error() -> None:
    assert check_size("bins", np.int32(3), least=1) == 3
    check_range("share", np.float32(0.5), "[0, 1]")
    cases: list[tuple[type[Exception], Any, tuple[Any, ...]]] = [
        (TypeError, check_size, ("bins", 2.0, 1)),
        (TypeError, check_size, ("bins", True, 1)),
        (ValueError, check_size, ("bins", 0, 1)),
        (TypeError, check_choice, ("kind", ["logits"], ("logits", "probs"))),
        (ValueError, check_choice, ("kind", "scores", ("logits", "probs"))),
        (TypeError, check_range, ("share", "0.5", "[0, 1]")),
        (ValueError, check_range, ("share", 1.5, "[0, 1]")),
        (ValueError, check_range, ("share", 0, "(0, 1)")),
        (ValueError, check_range, ("share", 1, "[0, 1)")),
        (TypeError, check_range, ("beta", None, "[0, inf)")),
        (ValueError, check_range, ("beta", math.nan, "[0, inf)")),
        (TypeError, as_tensor, ("logits", "logits")),
        (ValueError, as_tensor, ([[1.0], [1.0, 2.0]], "logits")),
    ]
    for error, check, arguments in cases:
        with pytest.raises(error):
            check(*arguments)


def test_jsonable_values_are_strict_json() -> None:
    calibration = ss.Calibration(bins=2)
    calibration.update(probs=torch.tensor([[1.0, 0.0]]), labels=torch.tensor([1]))
    interval = ss.metrics.Interval(math.inf, math.nan, 1.0, 0.5)
    values = {
        "result": calibration.compute().to_dict(),
        "interval": interval,
        "array": np.array([1.0, -np.inf]),
        "tensor": torch.tensor([[1, 2]]),
        "scalars": (np.float32(0.5), np.int64(2), True, None, "text"),
    }
    found = json.loads(json.dumps(jsonable(values), allow_nan=False))
    assert found["interval"] == {"estimate": None, "low": None, "high": 1.0, "standard_error": 0.5}
    assert found["array"] == [1.0, None]
    assert found["tensor"] == [[1, 2]]
    assert found["scalars"] == [0.5, 2, True, None, "text"]
    assert (found["result"]["nll"], found["result"]["bins"]["accuracy"]) == (None, [None, 0.0])
