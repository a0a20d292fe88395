"""ECE against the number of stochastic passes."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

from singleshot.paper.passes_figure import ece_by_passes, plot_ece_against_passes

mpl.use("Agg")
import matplotlib.pyplot as plt

PASSES = {"VWCI": {5: [0.1, 0.2, 0.4], 2: [0.3, 0.3, 0.3]}, "CE": {1: [0.25]}}


def test_points_are_mean_and_standard_error_over_seeds() -> None:
    low, high = ece_by_passes(PASSES["VWCI"])
    assert (low.passes, low.seeds, high.passes) == (2, 3, 5)
    assert (low.mean, low.standard_error) == pytest.approx((0.3, 0))
    deviations = np.array([0.1, 0.2, 0.4]) - 0.7 / 3
    assert high.mean == pytest.approx(0.7 / 3)
    error = np.sqrt((deviations**2).sum() / 2 / 3)
    assert high.standard_error == pytest.approx(error)
    ax = plot_ece_against_passes(PASSES)
    curves: dict[str, Any] = {str(container.get_label()): container for container in ax.containers}
    assert set(curves) == {"VWCI (3 seeds)", "CE (1 seed)"}
    line, _, (bars,) = curves["VWCI (3 seeds)"].lines
    assert line.get_xydata().ravel().tolist() == pytest.approx([2, 0.3, 5, 0.7 / 3])
    ends = bars.get_segments()[1][:, 1]
    assert ends[1] - ends[0] == pytest.approx(2 * error)
    assert list(ax.get_xticks()) == [1, 2, 5]
    assert ax.get_ylim()[0] == 0
    _, axes = plt.subplots(1, 2)
    assert plot_ece_against_passes({"VWCI": {2: [0.1], 5: [0.1, 0.2]}}, ax=axes[1]) is axes[1]
    assert not axes[0].lines
    assert axes[1].containers[0].get_label() == "VWCI (1 to 2 seeds)"
    plt.close("all")


def test_invalid_points_are_refused() -> None:
    bad: Any
    for bad in ({0: [0.1]}, {2.5: [0.1]}, {2: []}, {2: [float("nan")]}, {2: [[0.1]]}):
        with pytest.raises((TypeError, ValueError), match=r"passes must be|must be finite numbers, one per seed"):
            ece_by_passes(bad)
    with pytest.raises(ValueError, match="must contain at least one curve, got none"):
        plot_ece_against_passes({})
