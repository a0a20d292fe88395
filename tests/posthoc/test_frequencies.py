"""Isotonic regression and histogram binning against plain numpy and scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

import oracle
from singleshot.posthoc import HistogramBinning, IsotonicScaling


def predictions(examples: int, classes: int) -> tuple[Tensor, Tensor]:
    """Labels drawn from softmax(z); the float64 logits handed out are twice as large."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(examples, classes, dtype=torch.float64, generator=generator) * 2
    return logits * 2, torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)


def with_imagined_example(frequencies: oracle.Array, probs: oracle.Array, examples: int) -> oracle.Array:
    """Add a pseudo-example, half in proportion to the uncalibrated probabilities and half evenly; then normalize."""
    result = np.empty_like(frequencies)
    for i, (row, prob) in enumerate(zip(frequencies, probs, strict=True)):
        raw = [f + 1 / (examples + 1) * (p / 2 + 1 / len(row) / 2) for f, p in zip(row, prob, strict=True)]
        result[i] = np.array(raw) / sum(raw)
    return result


def pooled(scores: oracle.Array, hits: oracle.Array) -> oracle.Array:
    """Isotonic regression at its own points by the max-min formula, with tied scores averaged first."""
    levels = np.unique(scores)
    total = np.array([hits[scores == level].sum() for level in levels])
    count = np.array([(scores == level).sum() for level in levels])
    n = len(levels)
    fitted = [
        max(min(total[a : b + 1].sum() / count[a : b + 1].sum() for b in range(i, n)) for a in range(i + 1))
        for i in range(n)
    ]
    return np.array([fitted[int(np.searchsorted(levels, score))] for score in scores])


def test_isotonic_equals_the_max_min_formula_on_its_own_examples() -> None:
    logits, labels = predictions(60, 3)
    logits = (logits * 2).round() / 2  # with ties
    probs = oracle.softmax(logits.numpy())
    frequencies = np.stack([pooled(torch.softmax(logits, 1)[:, c].numpy(), labels.numpy() == c) for c in range(3)], 1)
    found = IsotonicScaling.fit(logits, labels)(logits).exp().numpy()
    np.testing.assert_allclose(found, with_imagined_example(frequencies, probs, 60), atol=1e-12)


def test_isotonic_equals_scikit_learn_between_its_examples() -> None:
    from sklearn.isotonic import IsotonicRegression

    logits, labels = predictions(500, 4)
    fitted, unseen = oracle.softmax(logits[:300].numpy()), oracle.softmax(logits[300:].numpy())
    curves = [IsotonicRegression(out_of_bounds="clip").fit(fitted[:, c], labels[:300].numpy() == c) for c in range(4)]
    frequencies = np.stack([curve.predict(unseen[:, c]) for c, curve in enumerate(curves)], 1)
    found = IsotonicScaling.fit(logits[:300], labels[:300])(logits[300:]).exp().numpy()
    np.testing.assert_allclose(found, with_imagined_example(frequencies, unseen, 300), atol=1e-9)


def loop_over_bins(confidence: oracle.Array, happened: oracle.Array, bins: int, at: oracle.Array) -> oracle.Array:
    """Bins of as equal a count as whole examples allow, for confidences without ties."""
    order = np.argsort(confidence)
    starts = [k * len(order) // bins for k in range(bins)] + [len(order)]
    result = np.empty(len(at))
    for i, value in enumerate(at):
        k = 0
        while k + 1 < bins and value > (confidence[order[starts[k + 1] - 1]] + confidence[order[starts[k + 1]]]) / 2:
            k += 1
        result[i] = happened[order[starts[k] : starts[k + 1]]].mean()
    return result


@pytest.mark.parametrize("bins", [1, 7, 15])
def test_one_vs_rest_binning_equals_a_loop(bins: int) -> None:
    logits, labels = predictions(200, 3)
    fitted, unseen = oracle.softmax(logits[:120].numpy()), oracle.softmax(logits.numpy())
    y = labels[:120].numpy()
    frequencies = np.stack([loop_over_bins(fitted[:, c], y == c, bins, unseen[:, c]) for c in range(3)], 1)
    found = HistogramBinning.fit(logits[:120], labels[:120], bins=bins, kind="one_vs_rest")(logits).exp().numpy()
    np.testing.assert_allclose(found, with_imagined_example(frequencies, unseen, 120), atol=1e-12)


@pytest.mark.parametrize("bins", [1, 2, 15])
def test_top_label_binning_equals_a_loop(bins: int) -> None:
    logits, labels = predictions(200, 3)
    fitted, unseen = oracle.softmax(logits[:120].numpy()), oracle.softmax(logits.numpy())
    right = fitted.argmax(1) == labels[:120].numpy()
    top = loop_over_bins(fitted.max(1), right, bins, unseen.max(1))
    frequencies = np.empty_like(unseen)
    for i, row in enumerate(unseen):
        for c in range(3):
            rest = 1 - row.max()
            frequencies[i, c] = top[i] if c == row.argmax() else (1 - top[i]) * row[c] / rest
    found = HistogramBinning.fit(logits[:120], labels[:120], bins=bins)(logits).exp().numpy()
    np.testing.assert_allclose(found, with_imagined_example(frequencies, unseen, 120), atol=1e-9)


def test_top_label_binning_makes_confidence_the_accuracy() -> None:
    logits, labels = predictions(3000, 4)
    calibrated = HistogramBinning.fit(logits, labels, bins=10)(logits)
    predicted = logits.argmax(1)
    confidence = calibrated.exp().gather(1, predicted.unsqueeze(1)).squeeze(1)
    assert float(confidence.mean()) == pytest.approx(float((predicted == labels).double().mean()), abs=1e-3)


@pytest.mark.parametrize("kind", ["top_label", "one_vs_rest"])
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([-9.0, 0.0, 1.0, 9.0]), st.integers(0, 1)), min_size=1, max_size=30), st.data()
)
def test_bins_are_never_empty_with_ties(kind: Any, rows: list[tuple[float, int]], data: st.DataObject) -> None:
    logits = torch.tensor([[score, 0.0] for score, _ in rows])
    labels = torch.tensor([label for _, label in rows])
    bins = data.draw(st.integers(1, 20))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaling = HistogramBinning.fit(logits, labels, bins=bins, kind=kind)
    scores = logits.double().softmax(1)
    confidence = scores.amax(1) if kind == "top_label" else scores[:, 0]
    which = torch.searchsorted(scaling.edges[0], confidence.contiguous())
    filled = len(scaling.to_dict()["values"][0])
    assert sorted(set(which.tolist())) == list(range(filled))
    assert filled <= bins
    torch.testing.assert_close(scaling(logits).exp().sum(1), torch.ones(len(rows)))


@pytest.mark.parametrize("fit", [IsotonicScaling.fit, HistogramBinning.fit])
@pytest.mark.parametrize("wrong", [False, True])
def test_no_probability_is_zero(fit: Any, wrong: bool) -> None:
    """If all predictions are right, or all wrong, the confidence differs from 1 or 0 by the pseudo-example."""
    labels = torch.arange(30) % 3
    for size in (1.0, 1e4, 1e30):
        logits = torch.eye(3)[(labels + wrong) % 3] * size
        log_probs = fit(logits, labels)(logits)
        assert log_probs.dtype == torch.float32
        assert bool(log_probs.isfinite().all())
        assert float(log_probs.amin()) >= np.log(1 / (6 * 31 * 2))
        if not wrong:
            assert float(log_probs.gather(1, labels.unsqueeze(1)).mean()) > -0.05


@pytest.mark.parametrize(
    ("fit", "options", "consequence"),
    [
        (IsotonicScaling.fit, {}, "their frequency is 0"),
        (HistogramBinning.fit, {"kind": "one_vs_rest"}, "their frequency is 0"),
        (HistogramBinning.fit, {}, "predictions of them count as wrong"),
    ],
)
def test_a_missing_class_gives_a_warning(fit: Any, options: Any, consequence: str) -> None:
    logits, labels = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 0, 1, 0, 1])
    with pytest.warns(UserWarning, match=f"class 2 has no example in the fitting set: {consequence}") as caught:
        scaling = fit(logits, labels, **options)
    assert caught[0].filename == __file__
    assert bool(scaling(logits).isfinite().all())


@pytest.mark.parametrize("method", [IsotonicScaling, HistogramBinning])
def test_one_example(method: Any) -> None:
    with pytest.warns(UserWarning, match="class 1 has no example"):
        scaling = method.fit(torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64))
    # frequencies of 1 and 0, and a pseudo-example of weight 1/2, divided evenly
    torch.testing.assert_close(scaling(torch.ones(3, 2)).exp(), torch.tensor([[5 / 6, 1 / 6]]).expand(3, 2))


def test_invalid_options() -> None:
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"bins": 0}, ValueError, "bins must be a whole number of at least 1, got 0"),
        ({"bins": 2.5}, TypeError, "bins must be a whole number"),
        ({"kind": "all"}, ValueError, "kind='all' is unknown; choose one of top_label, one_vs_rest"),
    ]
    for options, error, message in cases:
        with pytest.raises(error, match=message):
            HistogramBinning.fit(*predictions(10, 3), **options)
