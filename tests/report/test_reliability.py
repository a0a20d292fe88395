from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
import torch
from scipy import stats

import singleshot as ss

mpl.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture
def result() -> ss.CalibrationResult:
    calibration = ss.Calibration(bins=10)
    calibration.update(
        probs=torch.tensor([[0.95, 0.05], [0.95, 0.05], [0.65, 0.35]], dtype=torch.float64),
        labels=torch.tensor([0, 1, 0]),
    )
    return calibration.compute()


def test_bars_are_the_bins_and_empty_bins_have_none(result: ss.CalibrationResult, tmp_path: Path) -> None:
    ax = ss.plot_reliability(result, title="a net", level=None)
    accuracy, gap, counts = ax.containers
    assert [bar.get_x() for bar in accuracy] == pytest.approx([0.6, 0.9])
    assert [bar.get_height() for bar in accuracy] == pytest.approx([1.0, 0.5])
    assert [bar.get_height() for bar in gap] == pytest.approx([0.65 - 1.0, 0.95 - 0.5])
    assert [bar.get_y() for bar in gap] == pytest.approx([1.0, 0.5])  # from the accuracy to the confidence
    heights = [bar.get_height() for bar in counts]
    assert len(heights) == 10
    assert heights[9] == pytest.approx(2 * heights[6])
    assert sum(height > 0 for height in heights) == 2
    assert ax.get_title() == "a net"
    texts = [text.get_text() for text in ax.texts]
    assert any(f"ECE {result.ece:.3f}" in text for text in texts)
    assert "3 examples, at most 2 in a bin" in texts
    ax.figure.savefig(tmp_path / "diagram.png")  # type: ignore[union-attr]
    plt.close("all")


@pytest.mark.parametrize("level", [0.95, 0.5])
def test_intervals_are_those_of_wilson_in_the_middle_of_each_filled_bin(
    result: ss.CalibrationResult, level: float
) -> None:
    ax = ss.plot_reliability(result, level=level)
    (intervals,) = (container for container in ax.containers if isinstance(container, mpl.container.ErrorbarContainer))
    (lines,) = intervals.lines[2]
    drawn = [segment.ravel().tolist() for segment in lines.get_segments()]
    for (x0, low, x1, high), middle, (right, count) in zip(drawn, (0.65, 0.95), ((1, 1), (1, 2)), strict=True):
        wanted = stats.binomtest(right, count).proportion_ci(level, method="wilson")
        assert (x0, x1) == pytest.approx((middle, middle))
        assert (low, high) == pytest.approx((wanted.low, wanted.high))
    plt.close("all")


@pytest.mark.parametrize("level", [0.95, None])
def test_alone_it_has_a_legend_outside_the_axes(result: ss.CalibrationResult, level: float | None) -> None:
    ax = ss.plot_reliability(result, level=level)
    figure: Any = ax.figure
    (legend,) = figure.legends
    wanted = ["accuracy", "calibrated", "gap to confidence"] if level is None else ["95 % interval", "accuracy"]
    assert sorted(text.get_text() for text in legend.get_texts())[: len(wanted)] == wanted
    figure.draw_without_rendering()
    box, inside = legend.get_window_extent(), ax.get_tightbbox()
    assert not box.overlaps(inside)
    assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert box.y0 >= 0
    plt.close("all")


@pytest.mark.parametrize("label", [0, 1])
def test_all_right_and_all_wrong_are_drawn(label: int) -> None:
    calibration = ss.Calibration(bins=20)
    calibration.update(logits=torch.tensor([[9.0, 0.0]] * 33), labels=torch.full((33,), label))
    ax = ss.plot_reliability(calibration.compute())
    assert [bar.get_height() for bar in ax.containers[0]] == [1.0 - label]
    plt.close("all")


def test_it_draws_where_it_is_told(result: ss.CalibrationResult) -> None:
    _, axes = plt.subplots(1, 2)
    assert ss.plot_reliability(result, ax=axes[1]) is axes[1]
    assert not axes[0].containers
    assert axes[1].get_legend() is None
    assert not axes[1].figure.legends  # several diagrams have one together
    assert sorted(axes[1].get_legend_handles_labels()[1]) == ["accuracy", "calibrated", "gap to confidence"]
    plt.close("all")
