"""Figures: the plotted bars and lines match the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch
from scipy import stats

import singleshot as ss
from singleshot.metrics import VarianceBins
from singleshot.metrics.examples import Examples
from singleshot.metrics.selective import RiskCoverage, risk_coverage
from singleshot.reporting import plot_coverage, plot_reliability, plot_risk_coverage, plot_variance
from singleshot.reporting.figures import line_styles

mpl.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture
def result() -> ss.CalibrationResult:
    calibration = ss.Calibration(bins=10)
    calibration.update(
        probs=torch.tensor([[0.95, 0.05], [0.95, 0.05], [0.65, 0.35]], dtype=torch.float64),
        labels=torch.tensor([0, 1, 0]),
    )
    return calibration.compute()


def calibrated(seed: int, count: int = 500) -> ss.CalibrationResult:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, 4, generator=generator) * 2
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    calibration = ss.Calibration(bins=20)
    calibration.update(logits=logits, labels=labels)
    return calibration.compute()


def risk_curve(coverage: Any, risk: Any) -> RiskCoverage:
    return RiskCoverage(np.linspace(1, 0, len(coverage)), np.array(coverage), np.array(risk), len(coverage))


def variance_bins(count: list[int], accuracy: list[float], score: list[float]) -> VarianceBins:
    edges = torch.linspace(0, 1, len(count) + 1, dtype=torch.float64)
    counts = torch.tensor(count)
    coverage = counts.cumsum(0).double() / counts.sum()
    return VarianceBins(edges[:-1], edges[1:], counts, torch.tensor(accuracy), torch.tensor(score), coverage)


NAN = float("nan")
CURVE = risk_curve([0.25, 0.5, 0.75, 1.0], [1.0, 0.5, 1 / 3, 0.5])
VARIANCE = variance_bins([6, 0, 2, 0], [0.5, NAN, 0.25, NAN], [0.75, NAN, 0.5, NAN])


def plotted(ax: Any, label: str) -> tuple[list[float], list[float]]:
    (line,) = (line for line in ax.get_lines() if line.get_label() == label)
    return np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist()


def test_reliability_bars_are_the_bins_and_empty_bins_have_none(result: ss.CalibrationResult) -> None:
    ax = plot_reliability(result, title="a net", level=None)
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
    assert "3 examples, at most 2 in a bin" in [text.get_text() for text in ax.texts]


def test_the_numbers_of_a_reliability_diagram_cover_no_bar(result: ss.CalibrationResult) -> None:
    ax = plot_reliability(result, title="a net")
    (summary,) = (text for text in ax.texts if text.get_text().startswith(f"ECE {result.ece:.3f}\naccuracy"))
    figure: Any = ax.figure
    figure.draw_without_rendering()
    axes, numbers, title = (artist.get_window_extent() for artist in (ax, summary, ax.title))
    assert axes.y1 <= numbers.y0 < numbers.y1 <= title.y0
    assert axes.x0 <= numbers.x0 < numbers.x1 <= axes.x1


def test_reliability_intervals_are_wilson_intervals(result: ss.CalibrationResult) -> None:
    for level in (0.95, 0.5):
        ax = plot_reliability(result, level=level)
        (intervals,) = (one for one in ax.containers if isinstance(one, mpl.container.ErrorbarContainer))
        (lines,) = intervals.lines[2]
        segments = [segment.ravel().tolist() for segment in lines.get_segments()]
        for (x0, low, x1, high), middle, (right, count) in zip(segments, (0.65, 0.95), ((1, 1), (1, 2)), strict=True):
            expected = stats.binomtest(right, count).proportion_ci(level, method="wilson")
            assert (x0, x1) == pytest.approx((middle, middle))
            assert (low, high) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize("level", [0.95, None])
def test_new_reliability_figure_has_a_legend_outside_the_axes(
    result: ss.CalibrationResult, level: float | None
) -> None:
    ax = plot_reliability(result, level=level)
    figure: Any = ax.figure
    (legend,) = figure.legends
    expected = ["accuracy", "calibrated", "gap to confidence"] if level is None else ["95 % interval", "accuracy"]
    assert sorted(text.get_text() for text in legend.get_texts())[: len(expected)] == expected
    figure.draw_without_rendering()
    box, inside = legend.get_window_extent(), ax.get_tightbbox()
    assert not box.overlaps(inside)
    assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert box.y0 >= 0


def test_reliability_of_all_correct_and_all_wrong() -> None:
    for label in (0, 1):
        calibration = ss.Calibration(bins=20)
        calibration.update(logits=torch.tensor([[9.0, 0.0]] * 33), labels=torch.full((33,), label))
        ax = plot_reliability(calibration.compute())
        assert [bar.get_height() for bar in ax.containers[0]] == [1.0 - label]


def test_reliability_on_given_axes_has_no_legend(result: ss.CalibrationResult) -> None:
    _, axes = plt.subplots(1, 2)
    assert plot_reliability(result, ax=axes[1]) is axes[1]
    assert not axes[0].containers
    assert axes[1].get_legend() is None
    assert not axes[1].figure.legends
    labels = sorted(axes[1].get_legend_handles_labels()[1])
    assert labels == ["95 % interval", "accuracy", "calibrated", "gap to confidence"]


def test_coverage_lines_are_the_coverage_of_each_result() -> None:
    results = {"one": calibrated(0), "other": calibrated(1)}
    ax = plot_coverage(results, title="coverage")
    for name, result in results.items():
        thresholds, shares = plotted(ax, name)
        assert thresholds == pytest.approx(np.arange(20) / 20)
        for threshold, share in zip(thresholds, shares, strict=True):
            bins = result.bins
            counted = [
                int(count)
                for low, count, accuracy in zip(bins.lower, bins.count, bins.accuracy, strict=True)
                if float(low) >= threshold - 1e-12 and float(accuracy) > threshold
            ]
            assert share == pytest.approx(sum(counted) / 500)
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["one", "other"]
    assert ax.get_title() == "coverage"


def test_risk_coverage_line_is_the_curve() -> None:
    probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.8, 0.2], [0.6, 0.4]])
    curve = risk_coverage(Examples.of(probs=probs, labels=torch.tensor([1, 0, 1, 0])))
    ax = plot_risk_coverage({"net": curve})
    coverage, risk = plotted(ax, "net")
    assert coverage == [0.25, 0.75, 1.0]  # equal confidences are accepted together
    assert risk == pytest.approx([1.0, 2 / 3, 0.5])
    assert ax.get_legend() is None  # a single curve
    assert ax.get_ylim()[1] >= 1.0


def test_risk_scale_ignores_the_first_few_examples_and_is_never_empty() -> None:
    count = 1000
    risk = np.linspace(0, 0.1, count)
    risk[0] = 1.0
    ax = plot_risk_coverage({"net": risk_curve(np.arange(1, count + 1) / count, risk)})
    assert 0.1 < ax.get_ylim()[1] < 0.2
    assert plot_risk_coverage({"net": risk_curve([1.0], [0.0])}).get_ylim()[1] > 0


def test_variance_bars_markers_and_cumulative_share_are_the_histogram() -> None:
    ax = plot_variance(VARIANCE, title="dropout")
    (accuracy,) = ax.containers
    assert [(bar.get_x(), bar.get_width(), bar.get_height()) for bar in accuracy] == [
        pytest.approx((0.0, 0.25, 0.5)),
        pytest.approx((0.5, 0.25, 0.25)),
    ]
    assert plotted(ax, "mean score") == ([0.125, 0.625], [0.75, 0.5])
    edges, shares = plotted(ax, "cumulative share")
    assert edges == [0, 0.25, 0.5, 0.75]
    assert shares == [0, 0.75, 0.75, 1.0]
    assert ax.get_xlim() == (0, 0.75)  # the last non-empty bin
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["accuracy", "mean score", "cumulative share"]  # type: ignore[union-attr]
    assert "8 examples" in ax.get_xlabel()
    assert ax.get_title() == "dropout"


def test_variance_of_one_example_on_which_all_passes_agree() -> None:
    histogram = ss.VarianceHistogram(bins=20)
    histogram.update(logits=torch.tensor([[[5.0, 0.0]], [[5.0, 0.0]]]), labels=torch.tensor([1]))
    ax = plot_variance(histogram.compute())
    assert [bar.get_height() for bar in ax.containers[0]] == [0.0]
    assert ax.get_xlim() == pytest.approx((0, 0.05))


@pytest.mark.parametrize("plot", [plot_coverage, plot_risk_coverage, plot_variance])
def test_given_axes_are_used_and_the_figure_can_be_saved(plot: Callable[..., Any], tmp_path: Path) -> None:
    contents: dict[Any, Any] = {plot_coverage: {"a": calibrated(0)}, plot_risk_coverage: {"a": CURVE}}
    _, axes = plt.subplots(1, 2)
    assert plot(contents.get(plot, VARIANCE), ax=axes[1]) is axes[1]
    assert not axes[0].lines
    for suffix in ("png", "svg", "pdf"):
        axes[1].figure.savefig(tmp_path / f"figure.{suffix}")
        assert (tmp_path / f"figure.{suffix}").stat().st_size > 1000
    if plot is not plot_variance:
        with pytest.raises(ValueError, match="must contain at least one curve, got none"):
            plot({})
        with pytest.raises(TypeError, match="must be a mapping from names to curves, got list"):
            plot([CURVE])


def test_280_line_styles_are_distinct() -> None:
    styles = {(style["color"], style["marker"], str(style["linestyle"])) for style in line_styles(280)}
    assert len(styles) == 280
    assert len({style["color"] for style in line_styles(7)}) == 7
    fills = [style["markerfacecolor"] == style["color"] for style in line_styles(9)]
    assert fills == [True] * 7 + [False] * 2  # a colour that is used again
    assert len({style["marker"] for style in line_styles(7)}) == 7


def test_states_in_place_of_results_are_refused() -> None:
    state: Any = ss.Calibration()
    with pytest.raises(TypeError, match="result must be a CalibrationResult"):
        plot_reliability(state)
    with pytest.raises(TypeError, match="histogram must be a VarianceBins"):
        plot_variance(state)
