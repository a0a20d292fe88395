from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import oracle
import singleshot as ss
from singleshot.metrics import ScoredBatch, examples as scores_module
from singleshot.metrics.binning import BinSums, debiased_error, mean_absolute_normal, plain_error
from singleshot.metrics.classwise import (
    ClassCells,
    ClasswiseGroups,
    classwise_error,
    number_of_groups,
)


def drawn(size: int, classes: int, seed: int = 0, *, temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, and labels from logits divided by the temperature."""
    generator = np.random.default_rng(seed)
    logits = 2 * generator.standard_normal((size, classes))
    labels = (logits / temperature + generator.gumbel(size=logits.shape)).argmax(1)
    return oracle.softmax(logits), labels


def groups_of(probs: np.ndarray, labels: np.ndarray, bins: int = 20, batch: int = 7) -> ClasswiseGroups:
    groups = ClasswiseGroups(bins)
    for first in range(0, len(labels), batch):
        groups.add(ScoredBatch.of(probs=probs[first : first + batch], labels=labels[first : first + batch]))
    return groups


@pytest.mark.parametrize("classes", [2, 5, 30])
def test_the_estimate_equals_the_oracle_and_low_is_at_most_high(classes: int) -> None:
    for size in (1, 3, 99, 250):
        probs, labels = drawn(size, classes, seed=size)
        found = groups_of(probs, labels, 15).interval(30)
        assert found.estimate == pytest.approx(oracle.classwise_ece(probs, labels, 15), abs=1e-12)
        assert 0 <= found.low <= found.high <= 1
        assert found.standard_error >= 0


def test_cells_of_groups_equal_sums_over_their_examples() -> None:
    probs, labels = drawn(60, 6)
    group = torch.from_numpy(np.random.default_rng(1).integers(0, 5, 60))
    for bins in (1, 4, 20):
        cells = ClassCells.empty(5, 6, bins)
        for half in (slice(0, 25), slice(25, 60)):
            cells.add(torch.from_numpy(probs[half]), torch.from_numpy(labels[half]), group[half])
        expected = np.zeros((3, 5, 6, bins))
        for i, (row, label) in enumerate(zip(probs, labels, strict=True)):
            for c, p in enumerate(row):
                expected[:, group[i], c, oracle.which_bin(p, bins)] += 1, c == label, p
        for values, wanted in zip(cells, expected, strict=True):
            np.testing.assert_allclose(values.numpy(), wanted, rtol=0, atol=1e-12)


def test_the_debiased_error_equals_the_literal_formula() -> None:
    """Per bin, over its classes; the accuracy of a cell is its mean probability minus the gap of the bin."""
    generator = np.random.default_rng(0)
    size = generator.integers(0, 30, (4, 3)).astype(float)
    size[2] = 0  # an empty bin
    probability = size * generator.random((4, 3))
    sums = BinSums(size, generator.binomial(size.astype(int), 0.5).astype(float), probability)
    expected = 0.0
    for n, k, q in zip(*sums, strict=True):
        if not n.sum():
            continue
        cells = [(n[c] / n.sum(), (q[c] - k[c]) / n[c], q[c] / n[c]) for c in range(3) if n[c]]
        mean = sum(p * d for p, d, _ in cells)
        noise = [max(0.0, min(1.0, r - mean)) for _, _, r in cells]
        noise = [a * (1 - a) / m for a, m in zip(noise, n[n > 0], strict=True)]
        spread = sum(p * (d - mean) ** 2 - p * (1 - p) * v for (p, d, _), v in zip(cells, noise, strict=True))
        spread = max(0.0, spread)
        for (p, d, _), v in zip(cells, noise, strict=True):
            shrink = spread / (spread + v) if spread else 0.0
            m, left = np.array(mean + shrink * (d - mean)), np.array(shrink * v)
            added = mean_absolute_normal(m, left + v) - mean_absolute_normal(m, left)
            expected += n.sum() / size.sum() * p * (abs(d) - float(added))
    assert float(classwise_error(sums, debiased_error)) == pytest.approx(expected, abs=1e-12)
    assert float(classwise_error(sums, plain_error)) == pytest.approx(
        np.abs(probability - sums.correct).sum() / size.sum()
    )


def test_the_interval_does_not_depend_on_batches_chunks_or_kind_of_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    probs, labels = drawn(150, 4)
    whole = groups_of(probs, labels, batch=150).interval(10)
    in_batches = groups_of(probs, labels, batch=11).interval(10)
    assert astuple(in_batches) == pytest.approx(astuple(whole), abs=1e-12)
    monkeypatch.setattr(scores_module, "CHUNK_ELEMENTS", 20)
    in_pieces = groups_of(probs, labels, batch=150).interval(10)
    assert astuple(in_pieces) == pytest.approx(astuple(whole), abs=1e-12)
    from_logits = ClasswiseGroups(20)
    from_logits.add(ScoredBatch.of(logits=np.log(probs), labels=labels))
    again = from_logits.interval(10)
    assert (again.low, again.high) == pytest.approx((whole.low, whole.high), abs=1e-9)


def test_a_file_sorted_by_its_labels_has_intervals_as_wide_as_any_other() -> None:
    """Weak scores with wrong priors: groups taken in turn would be too similar."""
    widths: dict[str, list[float]] = {"random": [], "sorted": [], "by turns": []}
    for seed in range(12):
        generator = np.random.default_rng(seed)
        labels = np.arange(1000) % 10
        probs = oracle.softmax(0.5 * generator.standard_normal((1000, 10)) + np.linspace(-1, 1, 10))
        orders = {"random": generator.permutation(1000), "sorted": np.argsort(labels), "by turns": np.arange(1000)}
        for name, order in orders.items():
            found = groups_of(probs[order], labels[order], batch=1000).interval(100)
            widths[name].append(found.high - found.low)
    usual = np.mean(widths["random"])
    assert np.mean(widths["sorted"]) == pytest.approx(usual, rel=0.2)
    assert np.mean(widths["by turns"]) == pytest.approx(usual, rel=0.2)


def test_more_cells_than_memory_are_refused() -> None:
    with pytest.raises(
        ValueError, match="bins must be at most 4194 for the classwise ECE of 1000 classes, got 1000000"
    ):
        number_of_groups(classes=1000, bins=10**6)


def test_the_interval_excludes_zero_only_if_miscalibrated() -> None:
    assert groups_of(*drawn(2000, 5, temperature=3.0), batch=2000).interval(100).low > 0.02
    assert groups_of(*drawn(2000, 5), batch=2000).interval(100).low == 0


@pytest.mark.parametrize("right", [True, False])
def test_all_correct_and_all_wrong(right: bool) -> None:
    probs = np.tile([1.0, 0.0], (40, 1))
    found = groups_of(probs, np.full(40, 0 if right else 1)).interval(20)
    error = 0.0 if right else 1.0
    assert (found.estimate, found.low, found.high) == (error, error, error)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.05, 0.2, 0.5, 0.95, 1.0]), st.integers(0, 1)), min_size=1, max_size=30)
)
@settings(max_examples=40, deadline=None)
def test_the_estimate_equals_the_classwise_ece_of_a_calibration(pairs: list[tuple[float, int]]) -> None:
    probs = np.array([[p, 1 - p] for p, _ in pairs])
    labels = np.array([label for _, label in pairs])
    calibration = ss.Calibration(classwise=True)
    calibration.update(probs=probs, labels=labels)
    found = groups_of(probs, labels).interval(5)
    assert found.estimate == pytest.approx(calibration.compute().classwise_ece, abs=1e-12)
    assert 0 <= found.low <= found.high <= 1


def test_many_classes_and_bins_have_fewer_groups() -> None:
    assert [number_of_groups(*size) for size in ((10, 20), (1000, 20), (1000, 100), (20_000, 50))] == [100, 83, 20, 20]
