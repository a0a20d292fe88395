"""Fig. 5 from synthetic results, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from fake_results import RESNET, SEEDS, drawn_store
from figure_oracle import binned, panels
from singleshot.paper.figures import draw_figure
from singleshot.paper.methods import CI


def test_fig5_has_the_coverage_of_the_pooled_predictions() -> None:
    store = drawn_store()
    figure, numbers = draw_figure("fig5", [RESNET], SEEDS, store)
    (setting,) = numbers["settings"]
    thresholds = np.arange(20) / 20
    for method, found in setting["methods"].items():
        count, correct, _ = binned(RESNET, method, range(SEEDS))
        accuracy = correct / count.clip(1)
        expected = [count[(thresholds >= at) & (accuracy > at)].sum() / count.sum() for at in thresholds]
        assert found["thresholds"] == pytest.approx(thresholds)
        assert found["coverage"] == pytest.approx(expected)
        assert found["seeds"] == SEEDS
    left, right = panels(figure)
    assert [line.get_label() for line in left.get_lines()] == [
        "Baseline (3 seeds)",
        "CI[Oracle], β = 0.01 (3 seeds)",
        "VWCI (3 seeds)",
    ]
    assert [line.get_label() for line in right.get_lines()] == [
        *(f"CI, β = {beta} (3 seeds)" for beta in ("1", "0.1", "0.01", "0.001", "0.0001")),
        "VWCI (3 seeds)",
    ]
    assert right.get_lines()[0].get_ydata() == pytest.approx(setting["methods"]["ci_1"]["coverage"])
    looks = [[line.get_color(), line.get_marker(), line.get_linestyle()] for line in (*left.lines, *right.lines)]
    assert looks[1] == looks[5]  # the oracle is β = 0.01
    assert looks[2] == looks[-1]
    assert len({tuple(look) for look in looks}) == len(CI) + 2
