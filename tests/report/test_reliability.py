from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pytest
import torch

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
    ax = ss.reliability_diagram(result, title="a net")
    accuracy, gap, shares = ax.containers
    assert [bar.get_x() for bar in accuracy] == pytest.approx([0.6, 0.9])
    assert [bar.get_height() for bar in accuracy] == pytest.approx([1.0, 0.5])
    assert [bar.get_height() for bar in gap] == pytest.approx([0.65 - 1.0, 0.95 - 0.5])
    assert [bar.get_y() for bar in gap] == pytest.approx([1.0, 0.5])  # from the accuracy to the confidence
    heights = [bar.get_height() for bar in shares]
    assert len(heights) == 10
    assert heights[9] == pytest.approx(2 * heights[6])
    assert sum(height > 0 for height in heights) == 2
    assert ax.get_title() == "a net"
    assert any(f"ECE {result.ece:.3f}" in text.get_text() for text in ax.texts)
    ax.figure.savefig(tmp_path / "diagram.png")  # type: ignore[union-attr]
    plt.close("all")


def test_it_draws_where_it_is_told(result: ss.CalibrationResult) -> None:
    _, axes = plt.subplots(1, 2)
    assert ss.reliability_diagram(result, ax=axes[1]) is axes[1]
    assert not axes[0].containers
    plt.close("all")
