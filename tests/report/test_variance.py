from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pytest
import torch

import singleshot as ss
from singleshot.metrics import VarianceBins
from singleshot.report import plot_variance

mpl.use("Agg")
import matplotlib.pyplot as plt


def bins_of(count: list[int], accuracy: list[float], score: list[float]) -> VarianceBins:
    edges = torch.linspace(0, 1, len(count) + 1, dtype=torch.float64)
    counts = torch.tensor(count)
    coverage = counts.cumsum(0).double() / counts.sum()
    return VarianceBins(edges[:-1], edges[1:], counts, torch.tensor(accuracy), torch.tensor(score), coverage)


def test_bars_markers_and_the_cumulative_share_are_the_numbers(tmp_path: Path) -> None:
    nan = float("nan")
    ax = plot_variance(bins_of([6, 0, 2, 0], [0.5, nan, 0.25, nan], [0.75, nan, 0.5, nan]), title="dropout")
    (accuracy,) = ax.containers
    assert [(bar.get_x(), bar.get_width(), bar.get_height()) for bar in accuracy] == [
        pytest.approx((0.0, 0.25, 0.5)),
        pytest.approx((0.5, 0.25, 0.25)),
    ]
    lines = {str(line.get_label()): line for line in ax.get_lines()}
    assert torch.as_tensor(lines["mean score"].get_xydata()).ravel().tolist() == pytest.approx(
        [0.125, 0.75, 0.625, 0.5]
    )
    share = torch.as_tensor(lines["cumulative share"].get_xydata()).tolist()
    assert share == [pytest.approx(point) for point in ([0, 0], [0.25, 0.75], [0.5, 0.75], [0.75, 1.0])]
    assert ax.get_xlim() == (0, 0.75)  # the last bin with examples
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["accuracy", "mean score", "cumulative share"]  # type: ignore[union-attr]
    assert "8 examples" in ax.get_xlabel()
    assert ax.get_title() == "dropout"
    ax.figure.savefig(tmp_path / "histogram.svg")  # type: ignore[union-attr]
    plt.close("all")


def test_one_example_on_which_all_passes_agree() -> None:
    histogram = ss.VarianceHistogram(bins=20)
    histogram.update(logits=torch.tensor([[[5.0, 0.0]], [[5.0, 0.0]]]), labels=torch.tensor([1]))
    _, axes = plt.subplots(1, 2)
    assert plot_variance(histogram.compute(), ax=axes[1]) is axes[1]
    assert [bar.get_height() for bar in axes[1].containers[0]] == [0.0]
    assert axes[1].get_xlim() == pytest.approx((0, 0.05))
    assert not axes[0].containers
    plt.close("all")
