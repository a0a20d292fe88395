"""Fig. 2 from synthetic results, against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fake_results import EXAMPLES, RESNET, SEEDS, VGG, drawn_store, fake_result, predictions
from figure_oracle import panels, softmax, texts
from singleshot.grid.store import ResultStore
from singleshot.paper.figures import draw_figure
from singleshot.paper.methods import job_of


def test_fig2_is_the_variance_histogram_of_the_baseline_of_all_seeds() -> None:
    store = drawn_store()
    figure, numbers = draw_figure("fig2", [VGG], SEEDS, store)
    sums = np.zeros((3, 20))
    for seed in range(SEEDS):
        _, labels, logits = predictions(VGG, "baseline", seed)
        passes = softmax(logits)
        mean = passes.mean(0)
        variance = 1 - np.sqrt(passes * mean).sum(-1).mean(0)
        index = np.ceil(variance * 20).astype(int) - 1
        for row, weight in enumerate((np.ones(EXAMPLES), mean.argmax(1) == labels.numpy(), mean.max(1))):
            sums[row] += np.bincount(index, weight, 20)
    count, correct, score = sums
    filled = count > 0
    found = numbers["settings"][0]
    bins = found["bins"]
    assert found["seeds"] == SEEDS
    assert bins["count"] == count.tolist()
    assert bins["coverage"] == pytest.approx(count.cumsum() / count.sum())
    assert np.array(bins["accuracy"], float)[filled] == pytest.approx(correct[filled] / count[filled])
    assert np.array(bins["score"], float)[filled] == pytest.approx(score[filled] / count[filled])
    assert [value is None for value in bins["accuracy"]] == (~filled).tolist()

    (ax,) = panels(figure)
    assert [bar.get_height() for bar in ax.patches] == pytest.approx(correct[filled] / count[filled])
    assert ax.get_lines()[0].get_ydata() == pytest.approx(score[filled] / count[filled])
    assert "vgg16 on digits, baseline (3 seeds)" in texts(figure)


def test_fig2_needs_a_network_with_noise(tmp_path: Path) -> None:
    store, job = ResultStore(tmp_path), job_of(RESNET, "baseline", 0)
    logits, labels, _ = predictions(RESNET, "baseline", 0)
    store.results[job.key] = fake_result(job, logits=logits, labels=labels)
    with pytest.raises(ValueError, match="fig2 has nothing to draw: none of its networks has noise"):
        draw_figure("fig2", [RESNET], 1, store)
