"""The expected gain of a calibration: samples of a stream, cross-fitting and held-out examples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import oracle
from integration.overconfident import calibrated
from singleshot.evaluation.calibrating import fit_scaling, rescale
from singleshot.evaluation.gain import METHODS, Gain, ScoreSample, _best, cross_fitted_gain, held_out_gain
from singleshot.metrics.examples import ScoredBatch
from singleshot.posthoc import SCALINGS
from singleshot.predictions import read_predictions
from singleshot.predictions.validation import fitted_logits


def overconfident(seed: int, rows: int, factor: float = 3.0) -> tuple[torch.Tensor, torch.Tensor]:
    logits, labels = calibrated(seed, rows)
    return torch.tensor(logits * factor), torch.tensor(labels)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.sampled_from([6, 40, 200, 10_000]))
@settings(max_examples=60, deadline=None)
def test_a_sample_has_every_nth_example(sizes: list[int], max_scores: int) -> None:
    sample = ScoreSample(max_scores)
    total = sum(sizes)
    scores, labels = torch.arange(total * 3.0).reshape(total, 3), torch.arange(total) % 3
    first = 0
    for size in sizes:
        rows = slice(first, first + size)
        sample.add(ScoredBatch.of(logits=scores[rows], labels=labels[rows]))
        first += size
    found, found_labels = sample.examples()
    steps = [1 << power for power in range(10)]
    kept = next(step for step in steps if torch.equal(found, scores[::step]))
    assert torch.equal(found_labels, labels[::kept])
    assert found.numel() <= max_scores
    assert kept == 1 or scores[:: kept // 2].numel() > max_scores  # no fewer than necessary


def test_probabilities_become_their_logarithms() -> None:
    sample = ScoreSample()
    sample.add(ScoredBatch.of(probs=[[0.25, 0.75], [1.0, 0.0]], labels=[0, 0]))
    logits, _ = sample.examples()
    assert logits.isfinite().all()
    expected = torch.tensor([[0.25, 0.75], [1 / 1.0005, 0.0005 / 1.0005]], dtype=logits.dtype)  # at most for a 0
    torch.testing.assert_close(logits.softmax(1), expected)


def test_a_temperature_fixes_logits_that_are_too_large() -> None:
    logits, labels = overconfident(0, 3000)
    gain = cross_fitted_gain(logits, labels)
    assert gain is not None
    assert gain.temperature == pytest.approx(3, rel=0.1)
    assert gain.fixed > 0.8
    assert gain.badge in {"Calibrated", "Nearly calibrated"}
    before = oracle.calibration(oracle.softmax(logits.numpy()), labels.numpy(), 20)
    assert (gain.ece[0], gain.nll[0]) == pytest.approx((before["ece"], before["nll"]), abs=1e-9)
    # fitted on all examples and judged on them, the NLL is lower: cross-fitting is not optimistic
    own = oracle.calibration(oracle.softmax(logits.numpy() / gain.temperature), labels.numpy(), 20)
    assert own["nll"] <= gain.nll[1] < before["nll"]


def test_cross_fitting_is_honest_about_few_examples() -> None:
    """The mean gain is not larger than that on new examples."""
    told, kept = [], []
    fresh, fresh_labels = overconfident(99, 4000, 1.0)
    for seed in range(30):
        logits, labels = overconfident(seed, 80, 1.0)
        gain = cross_fitted_gain(logits, labels)
        assert gain is not None
        told.append(gain.nll[1] - gain.nll[0])
        scaled = SCALINGS[gain.method].fit(logits, labels)(fresh).numpy()
        new = oracle.calibration(oracle.softmax(scaled), fresh_labels.numpy(), 20)
        kept.append(new["nll"] - oracle.calibration(oracle.softmax(fresh.numpy()), fresh_labels.numpy(), 20)["nll"])
    assert np.mean(told) >= np.mean(kept) - 3 * np.std(told) / np.sqrt(len(told))
    assert np.mean(told) > 0  # these logits are calibrated: a temperature from 40 examples makes them worse


def by_class(seed: int, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return logits of 4 classes and labels, sorted by label; the later classes are the more overconfident ones."""
    logits, labels = calibrated(seed, rows)
    order = np.argsort(labels, kind="stable")
    return torch.tensor(logits * (2.0 + labels[:, None]))[order], torch.tensor(labels)[order]


def test_held_out_examples_decide_the_temperature() -> None:
    """All of them, even if they are stored by class and are more than the examples that are judged."""
    held_out, (logits, labels) = by_class(1, 8000), by_class(0, 1000)
    gain = held_out_gain(held_out, logits, labels, what="8,000 validation images")
    assert gain is not None
    assert gain.method == "temperature"
    assert gain.temperature == pytest.approx(SCALINGS["temperature"].fit(*held_out).temperature, rel=1e-6)
    assert gain.how == "fitted on 8,000 validation images and judged on these examples"
    expected = oracle.calibration(oracle.softmax(logits.numpy() / gain.temperature), labels.numpy(), 20)
    assert gain.nll[1] == pytest.approx(expected["nll"], abs=1e-9)


def test_a_vector_scaling_is_fitted_to_some_examples_of_every_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singleshot.evaluation.gain.MAX_FITTED", 4000)
    (logits, labels), (new, new_labels) = calibrated(0, 8000), calibrated(1, 2000)
    bias, order = [0.0, 3.0, -3.0, 1.0], np.argsort(labels, kind="stable")
    held_out = torch.tensor((logits + bias)[order]), torch.tensor(labels[order])
    gain = held_out_gain(held_out, torch.tensor(new + bias), torch.tensor(new_labels), what="8,000 validation images")
    assert gain is not None
    assert gain.method == "vector"
    assert gain.fixed > 0.8


@given(
    fixed=st.lists(st.sampled_from([-0.5, 0.1, 0.25, 0.3, 0.55, 0.85, 1.0]), min_size=4, max_size=4),
    nll=st.lists(st.sampled_from([0.9, 1.1]), min_size=4, max_size=4),
)
def test_the_best_method_is_chosen_unless_a_temperature_is_nearly_as_good(fixed: list[float], nll: list[float]) -> None:
    gains = {
        method: Gain(method, None, 100, "", (0.2, 0.2 * (1 - part)), (1.0, after), "", part)
        for method, part, after in zip(METHODS, fixed, nll, strict=True)
    }
    chosen = _best(gains.__getitem__)
    good = [gain for gain in gains.values() if gain.fixed >= 0.2 and gain.nll[1] < 1]
    assert chosen is not None
    if not good:
        assert chosen.method == "temperature"
        assert not chosen.helps
    elif chosen.method == "temperature":
        assert chosen in good
        assert max(gain.fixed for gain in good) < chosen.fixed + 0.1
    else:
        assert chosen in good
        assert chosen.fixed == max(gain.fixed for gain in good)
        assert gains["temperature"] not in good or chosen.fixed >= gains["temperature"].fixed + 0.1


def test_too_few_or_infinite_logits_have_no_gain() -> None:
    logits, labels = overconfident(0, 59)
    assert cross_fitted_gain(logits, labels) is None  # too few
    assert held_out_gain(overconfident(1, 10), *overconfident(0, 100), what="10 images") is None
    masked, labels = overconfident(0, 100)
    masked[3, int(labels[3] + 1) % 4] = -torch.inf
    assert cross_fitted_gain(masked, labels) is None


def rounded(decimals: int, sharpness: float, classes: int = 10, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return 4,000 rows of probabilities, rounded, of logits that are too large by a factor, and labels."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(4000, classes)) * 2
    labels = (oracle.softmax(logits).cumsum(1) > generator.random((4000, 1))).argmax(1)
    return oracle.softmax(logits * sharpness).round(decimals), labels


@pytest.mark.parametrize(
    ("method", "decimals", "classes"),
    [
        *((method, 2, 10) for method in ("temperature", "vector", "isotonic", "histogram")),
        *(("temperature", *size) for size in ((2, 2), (3, 10), (2, 100))),
    ],
)
def test_rounded_probabilities_do_not_spoil_a_fit(method: str, decimals: int, classes: int, tmp_path: Path) -> None:
    """An entry of 0.00 is a small probability; as 1e-38 it would dominate the NLL. Its size is that of its row."""
    probs, labels = rounded(decimals, 2.5, classes)
    paths = [tmp_path / "fit.npz", tmp_path / "test.npz"]
    for start, path in enumerate(paths):
        np.savez(path, probs=probs[start::2], labels=labels[start::2])
    fitted, test = map(read_predictions, paths)
    before, after = rescale(test, fit_scaling(fitted, method))
    assert after.ece < 0.5 * before.ece
    assert after.brier < before.brier
    doing_nothing = test.logits(test.load())
    assert after.nll < oracle.calibration(oracle.softmax(doing_nothing), labels[1::2], 20)["nll"]
    if method in {"temperature", "vector"}:
        logits = torch.from_numpy(np.log(rounded(20, 2.5, classes)[0]))
        targets = torch.from_numpy(labels)
        exact = SCALINGS[method].fit(logits[0::2], targets[0::2])(logits[1::2]).numpy()
        assert after.ece < oracle.calibration(oracle.softmax(exact), labels[1::2], 20)["ece"] + 0.02


@pytest.mark.parametrize(("decimals", "sharpness"), [(2, 0.4), (2, 2.5), (1, 1.5), (3, 1.5)])
def test_the_advice_for_rounded_probabilities_holds_on_new_examples(decimals: int, sharpness: float) -> None:
    (probs, labels), (new, new_labels) = (rounded(decimals, sharpness, seed=seed) for seed in (0, 1))
    logits, fresh = (torch.from_numpy(fitted_logits(some, "probs")) for some in (probs, new))
    gain = cross_fitted_gain(logits, torch.from_numpy(labels))
    assert gain is not None
    assert gain.helps
    scaled = SCALINGS[gain.method].fit(logits, torch.from_numpy(labels))(fresh).numpy()
    before = oracle.calibration(new / new.sum(1, keepdims=True), new_labels, 20)
    after = oracle.calibration(oracle.softmax(scaled), new_labels, 20)
    assert after["ece"] < before["ece"]
    assert after["nll"] < oracle.calibration(oracle.softmax(fresh.numpy()), new_labels, 20)["nll"]


def test_where_a_temperature_fails_another_method_is_found() -> None:
    """The probabilities of sure predictions are too low, and those of unsure ones too high."""
    logits, labels = calibrated(0, 2000)
    sure = oracle.softmax(logits).max(1, keepdims=True) > 0.6
    gain = cross_fitted_gain(torch.tensor(np.where(sure, 0.5 * logits, 1.6 * logits)), torch.tensor(labels))
    assert gain is not None
    assert gain.method != "temperature"
    assert gain.helps


def test_one_score_per_example_is_no_sample() -> None:
    sample = ScoreSample()
    sample.add(ScoredBatch.of_top_class(confidence=[1.0] * 100, predicted=[0] * 100, labels=[0] * 100))
    assert sample.is_empty
    assert cross_fitted_gain(*sample.examples()) is None
