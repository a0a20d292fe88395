"""Coverage, risk–coverage and ECE against passes: the lines drawn are the numbers they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch

import singleshot as ss
from singleshot.metrics.examples import Examples
from singleshot.metrics.selective import RiskCoverage, risk_coverage
from singleshot.paper.passes_figure import ece_by_passes, plot_ece_against_passes
from singleshot.report import plot_coverage, plot_risk_coverage
from singleshot.report.style import line_styles

mpl.use("Agg")
import matplotlib.pyplot as plt


def risk_curve(coverage: Any, risk: Any) -> RiskCoverage:
    return RiskCoverage(np.linspace(1, 0, len(coverage)), np.array(coverage), np.array(risk), len(coverage))


CURVE = risk_curve([0.25, 0.5, 0.75, 1.0], [1.0, 0.5, 1 / 3, 0.5])
PASSES = {"VWCI": {5: [0.1, 0.2, 0.4], 2: [0.3, 0.3, 0.3]}, "CE": {1: [0.25]}}


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def calibrated(seed: int, count: int = 500) -> ss.CalibrationResult:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, 4, generator=generator) * 2
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    calibration = ss.Calibration(bins=20)
    calibration.update(logits=logits, labels=labels)
    return calibration.compute()


def drawn(ax: Any, label: str) -> tuple[list[float], list[float]]:
    (line,) = (line for line in ax.get_lines() if line.get_label() == label)
    return np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist()


def test_the_coverage_curve_draws_the_coverage_of_each_result() -> None:
    results = {"one": calibrated(0), "other": calibrated(1)}
    ax = plot_coverage(results, title="coverage")
    for name, result in results.items():
        thresholds, shares = drawn(ax, name)
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


def test_the_risk_coverage_curve_draws_what_it_is_given() -> None:
    probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.8, 0.2], [0.6, 0.4]])
    curve = risk_coverage(Examples.of(probs=probs, labels=torch.tensor([1, 0, 1, 0])))
    ax = plot_risk_coverage({"net": curve})
    coverage, risk = drawn(ax, "net")
    assert coverage == [0.25, 0.75, 1.0]  # equal confidences are kept together
    assert risk == pytest.approx([1.0, 2 / 3, 0.5])
    assert ax.get_legend() is None  # nothing to tell apart
    assert ax.get_ylim()[1] >= 1.0


def test_the_risk_of_the_first_few_does_not_set_the_scale() -> None:
    count = 1000
    risk = np.linspace(0, 0.1, count)
    risk[0] = 1.0
    ax = plot_risk_coverage({"net": risk_curve(np.arange(1, count + 1) / count, risk)})
    assert 0.1 < ax.get_ylim()[1] < 0.2


def test_no_errors_at_all_still_have_a_scale() -> None:
    ax = plot_risk_coverage({"net": risk_curve([1.0], [0.0])})
    assert ax.get_ylim()[1] > 0


def test_passes_have_mean_and_standard_error_over_seeds() -> None:
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


def test_points_of_different_seeds_are_said_to_be() -> None:
    ax = plot_ece_against_passes({"VWCI": {2: [0.1], 5: [0.1, 0.2]}})
    assert ax.containers[0].get_label() == "VWCI (1 to 2 seeds)"


@pytest.mark.parametrize("draw", [plot_coverage, plot_risk_coverage, plot_ece_against_passes])
def test_each_draws_where_it_is_told_and_refuses_nothing_to_draw(draw: Callable[..., Any], tmp_path: Path) -> None:
    content: dict[Any, Any] = {plot_coverage: {"a": calibrated(0)}, plot_risk_coverage: {"a": CURVE}}
    _, axes = plt.subplots(1, 2)
    assert draw(content.get(draw, PASSES), ax=axes[1]) is axes[1]
    assert not axes[0].lines
    for suffix in ("png", "svg", "pdf"):
        axes[1].figure.savefig(tmp_path / f"figure.{suffix}")
        assert (tmp_path / f"figure.{suffix}").stat().st_size > 1000
    with pytest.raises(ValueError, match="must hold at least one curve, got none"):
        draw({})
    with pytest.raises(ValueError, match="must map a name to what is drawn under it, got list"):
        draw([CURVE])


@pytest.mark.parametrize("curve", [([0.5, 1.0], [0.1]), ([], []), ([[1.0]], [[1.0]])])
def test_a_risk_coverage_curve_needs_arrays_of_one_length(curve: tuple[list[Any], list[Any]]) -> None:
    with pytest.raises(ValueError, match=r"curves\['net'\] must have coverage and risk of one length"):
        plot_risk_coverage({"net": risk_curve(*curve)})


@pytest.mark.parametrize("eces", [{0: [0.1]}, {2.5: [0.1]}, {2: []}, {2: [float("nan")]}, {2: [[0.1]]}])
def test_bad_points_are_refused(eces: Any) -> None:
    with pytest.raises(ValueError, match=r"passes must be a whole number|must be finite numbers, one per seed"):
        ece_by_passes(eces)


def test_280_curves_have_280_looks() -> None:
    looks = {(style["color"], style["marker"], str(style["linestyle"])) for style in line_styles(280)}
    assert len(looks) == 280
    assert len({style["color"] for style in line_styles(7)}) == 7
    assert len({style["marker"] for style in line_styles(7)}) == 7
