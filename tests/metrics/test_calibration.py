from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

import oracle
import singleshot as ss
from singleshot.metrics import ExampleGathering, Examples, ScoredBatch, adaptive_ece, examples as scores_module
from singleshot.metrics.binning import bin_index

METRICS = ("accuracy", "mean_confidence", "ece", "mce", "rmsce", "overconfidence", "underconfidence", "nll", "brier")


def predictions(
    examples: int, classes: int, *, scale: float = 3.0, seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(examples, classes, dtype=torch.float64, generator=generator) * scale
    return logits.to(dtype), torch.randint(0, classes, (examples,), generator=generator)


def measure(bins: int = 20, classwise: bool = False, **batch: Any) -> ss.CalibrationResult:
    calibration = ss.Calibration(bins=bins, classwise=classwise)
    calibration.update(**batch)
    return calibration.compute()


@pytest.mark.parametrize(("examples", "classes"), [(1, 2), (50, 3), (1000, 10), (300, 100)])
@pytest.mark.parametrize(("bins", "scale"), [(1, 3.0), (10, 0.0), (15, 0.5), (20, 3.0), (20, 50.0), (100, 3.0)])
def test_every_metric_equals_the_oracle(bins: int, examples: int, classes: int, scale: float) -> None:
    logits, labels = predictions(examples, classes, scale=scale)
    probs = oracle.softmax(logits.numpy())
    expected = oracle.calibration(probs, labels.numpy(), bins)
    expected["nll"] = oracle.ground_truth(logits.numpy()[None], labels.numpy()).mean()
    for result in (measure(bins, logits=logits, labels=labels), measure(bins, probs=probs, labels=labels)):
        assert result.count == examples
        for name in METRICS:
            assert getattr(result, name) == pytest.approx(expected[name], rel=1e-10, abs=1e-10), name
        assert result.bins.count.tolist() == expected["bin_count"].tolist()
        np.testing.assert_allclose(result.bins.accuracy, expected["bin_accuracy"], rtol=0, atol=1e-10)
        np.testing.assert_allclose(result.bins.confidence, expected["bin_confidence"], rtol=0, atol=1e-10)


def test_bins_and_scores_equal_those_of_scikit_learn() -> None:
    from sklearn.calibration import calibration_curve
    from sklearn.metrics import brier_score_loss, log_loss

    logits, labels = predictions(400, 2, scale=1.0)
    probs = oracle.softmax(logits.numpy())
    result = measure(20, probs=probs, labels=labels)
    confidence, correct = probs.max(1), probs.argmax(1) == labels.numpy()
    accuracies, confidences = calibration_curve(correct, confidence, n_bins=20)
    filled = result.bins.count > 0
    np.testing.assert_allclose(result.bins.accuracy[filled], accuracies, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.bins.confidence[filled], confidences, rtol=0, atol=1e-12)
    assert result.mce == pytest.approx(np.abs(accuracies - confidences).max(), abs=1e-12)
    assert result.ece == pytest.approx(result.bins.share[filled].numpy() @ np.abs(accuracies - confidences), abs=1e-12)
    assert result.nll == pytest.approx(log_loss(labels.numpy(), probs), abs=1e-12)
    assert result.brier == pytest.approx(2 * brier_score_loss(labels.numpy(), probs[:, 1]), abs=1e-12)
    accuracies, confidences = calibration_curve(correct, confidence, n_bins=20, strategy="quantile")
    adaptive = adaptive_ece(Examples.of(probs=probs, labels=labels))
    assert adaptive == pytest.approx(np.abs(accuracies - confidences).mean(), abs=1e-12)  # 20 examples in each bin


@pytest.mark.parametrize("classes", [2, 7])
def test_classwise_ece_equals_the_oracle(classes: int) -> None:
    logits, labels = predictions(400, classes)
    probs = oracle.softmax(logits.numpy())
    expected = oracle.classwise_ece(probs, labels.numpy(), 15)
    assert measure(15, True, logits=logits, labels=labels).classwise_ece == pytest.approx(expected, abs=1e-10)
    assert measure(15, True, probs=probs, labels=labels).classwise_ece == pytest.approx(expected, abs=1e-10)
    assert measure(15, logits=logits, labels=labels).classwise_ece is None


def test_edges_belong_to_the_bin_below_in_every_dtype() -> None:
    edges = torch.arange(10, 21, dtype=torch.float64) / 20
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        for confidence in edges.to(dtype):
            probs = torch.stack([confidence, 1 - confidence]).unsqueeze(0)
            result = measure(probs=probs, labels=torch.tensor([0]))
            assert int(result.bins.count.argmax()) == round(float(confidence) * 20) - 1, (dtype, float(confidence))
            assert int(result.bins.count.sum()) == 1


def test_a_value_of_exactly_zero_counts_in_the_first_bin() -> None:
    """A top-1 confidence is never 0, but the probability of a class can be, and the classwise bins count it."""
    for probs in (torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0]], dtype=torch.float16)):
        calibration = ss.Calibration(bins=20, classwise=True)
        calibration.update(probs=probs, labels=torch.tensor([0]))
        count = calibration.to_dict()["sums"]["class_count"]
        assert count[1] == [1] + [0] * 19
        assert count[0] == [0] * 19 + [1]
    assert [int(index) for index in bin_index(torch.tensor([0.0, 0.05, 1.0]), 20)] == [0, 0, 19]


def test_classwise_ece_of_uniform_predictions() -> None:
    logits, labels = torch.zeros(4, 100, dtype=torch.float64), torch.tensor([0, 1, 2, 3])
    for bins in (1, 20):
        expected = oracle.classwise_ece(np.full((4, 100), 0.01), labels.numpy(), bins)
        assert measure(bins, True, logits=logits, labels=labels).classwise_ece == pytest.approx(expected, abs=1e-12)


def test_low_confidences_reach_the_low_bins() -> None:
    probs = np.full((1, 100), 0.01)
    assert int(measure(probs=probs, labels=np.array([3])).bins.count[0]) == 1
    just_above = np.full((1, 20), 0.05)
    just_above[0, :2] = [np.nextafter(0.05, 1), 0.05 - 1e-15]
    assert int(measure(probs=just_above, labels=np.array([3])).bins.count[1]) == 1


def test_confidence_exactly_one_counts_in_the_last_bin() -> None:
    """Implementations with an extra bin above 1.0 return 0.525 instead of 0.475."""
    probs = torch.tensor([[1.0, 0.0], [0.95, 0.05]])
    result = measure(10, probs=probs, labels=torch.tensor([1, 0]))
    assert result.bins.count.tolist() == [0] * 9 + [2]
    assert result.ece == pytest.approx(0.475, abs=1e-6)


def test_logits_inside_the_unit_interval_are_logits() -> None:
    logits = torch.rand(200, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = logits.argmax(1)
    expected = oracle.calibration(oracle.softmax(logits.numpy()), labels.numpy(), 20)["ece"]
    assert measure(logits=logits, labels=labels).ece == pytest.approx(expected, abs=1e-12)


def test_all_correct_all_wrong_and_empty_bins() -> None:
    logits = torch.tensor([[2.0, 0.0], [3.0, 0.0]])
    right = measure(logits=logits, labels=torch.tensor([0, 0]))
    wrong = measure(logits=logits, labels=torch.tensor([1, 1]))
    assert (right.accuracy, wrong.accuracy) == (1.0, 0.0)
    assert right.overconfidence == 0
    assert wrong.underconfidence == 0
    assert right.ece == pytest.approx(1 - right.mean_confidence)
    assert wrong.ece == pytest.approx(wrong.mean_confidence)
    empty = right.bins.count == 0
    assert int(empty.sum()) == 18
    assert bool(right.bins.accuracy[empty].isnan().all())
    assert bool(right.bins.confidence[empty].isnan().all())


def test_a_tie_predicts_the_first_class() -> None:
    tied = torch.zeros(2, 3)
    assert measure(logits=tied, labels=torch.tensor([0, 1])).accuracy == 0.5
    assert measure(probs=tied + 1 / 3, labels=torch.tensor([0, 2])).accuracy == 0.5
    nearly = torch.tensor([[1.0, 1.0 - 1e-9]], dtype=torch.float64)  # exp() of these is equal in float32
    assert measure(logits=nearly, labels=torch.tensor([1])).accuracy == 0
    assert measure(logits=nearly, labels=torch.tensor([0])).accuracy == 1


def test_confident_rows_keep_their_digits_and_low_precision_is_close_to_float64() -> None:
    for dtype in (torch.float32, torch.float64):
        result = measure(logits=torch.tensor([[30.0, 0.0, 0.0]], dtype=dtype), labels=torch.tensor([0]))
        tail = 2 * np.exp(-30.0)
        assert result.nll == pytest.approx(np.log1p(tail), rel=1e-5)
        share = np.exp(-30.0) / (1 + tail)
        assert result.brier == pytest.approx(2 * share**2 + (2 * share) ** 2, rel=1e-5)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        logits, labels = predictions(3000, 10, dtype=dtype)
        exact = measure(logits=logits.double(), labels=labels)
        rough = measure(logits=logits, labels=labels)
        assert rough.accuracy == exact.accuracy
        for name in ("nll", "brier", "mean_confidence"):
            assert getattr(rough, name) == pytest.approx(getattr(exact, name), rel=1e-6)


def test_huge_logits_and_impossible_labels() -> None:
    huge = measure(logits=torch.tensor([[1e30, -1e30], [6e4, 0.0]]), labels=torch.tensor([0, 0]))
    assert (huge.accuracy, huge.nll, huge.ece) == (1.0, 0.0, 0.0)
    impossible = measure(probs=torch.tensor([[1.0, 0.0]]), labels=torch.tensor([1]))
    assert impossible.nll == float("inf")
    assert impossible.to_dict()["nll"] is None


def test_arrays_read_only_views_lists_and_pandas_objects_are_accepted() -> None:
    logits, labels = predictions(40, 4, dtype=torch.float32)
    labels[::2] = logits[::2].argmax(1)  # better than chance, so that a temperature fits
    expected = measure(logits=logits, labels=labels).metrics()
    array, small = logits.numpy().copy(), labels.numpy().astype(np.uint8)
    array.setflags(write=False)
    assert measure(logits=array, labels=small).metrics() == expected
    frame = pd.DataFrame(array, columns=list("abcd"), index=range(100, 140))
    for series in (pd.Series(small), pd.Series(small, dtype="Int64")):
        assert measure(logits=frame, labels=series).metrics() == expected
        assert torch.equal(Examples.of(logits=frame, labels=series).nll, Examples.of(logits=logits, labels=labels).nll)
    scaling = ss.TemperatureScaling.fit(frame, pd.Series(small))
    assert scaling.temperature == ss.TemperatureScaling.fit(logits, labels).temperature
    from_list = measure(probs=[[0.9, 0.1], [0.3, 0.7]], labels=[0, 0])
    assert (from_list.count, from_list.accuracy) == (2, 0.5)
    with pytest.raises(TypeError, match="logits cannot be converted to a tensor"):
        measure(logits=pd.DataFrame({"a": ["x"], "b": ["y"]}), labels=[0])


def test_print_and_notebooks_show_every_metric_with_the_ece_first() -> None:
    logits, labels = predictions(400, 4)
    result = measure(classwise=True, logits=logits, labels=labels)
    title, first, *_ = str(result).splitlines()
    assert title == "Calibration of 400 examples in 20 bins"
    assert first.split() == ["ece", f"{result.ece:.4f}"]
    for name, value in result.metrics().items():
        assert f"{value:.4f}" in next(line for line in str(result).splitlines() if line.split()[0] == name)
    assert repr(result) == str(result)
    infinite = measure(probs=torch.tensor([[1.0, 0.0]]), labels=torch.tensor([1]))
    assert ["nll", "inf"] in [line.split() for line in str(infinite).splitlines()]


def test_update_does_not_change_its_input() -> None:
    logits, labels = predictions(40, 4)
    logits.requires_grad_()
    before = logits.detach().clone()
    measure(classwise=True, logits=logits, labels=labels)
    measure(classwise=True, probs=before.softmax(1), labels=labels)
    assert torch.equal(logits, before)


def test_metrics_do_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, labels = predictions(500, 7, dtype=torch.float32)
    whole = measure(classwise=True, logits=logits, labels=labels)
    monkeypatch.setattr(scores_module, "CHUNK_ELEMENTS", 64)
    chunked = measure(classwise=True, logits=logits, labels=labels)
    for name, value in whole.metrics().items():
        assert chunked.metrics()[name] == pytest.approx(value, rel=1e-12, abs=1e-15)
    assert torch.equal(whole.bins.count, chunked.bins.count)


@given(
    st.integers(1, 200),
    st.integers(1, 12),
    st.lists(st.integers(0, 200), max_size=6),
    st.booleans(),
    st.sampled_from([torch.float64, torch.float32, torch.float16]),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=60)
def test_merging_any_split_equals_the_whole(
    examples: int, classes: int, cuts: list[int], as_probs: bool, dtype: torch.dtype, seed: int
) -> None:
    logits, labels = predictions(examples, classes, seed=seed, dtype=dtype)
    scores, name = (logits.double().softmax(1).to(dtype), "probs") if as_probs else (logits, "logits")
    batch: dict[str, Any] = {name: scores, "labels": labels}
    whole = measure(classwise=True, **batch)
    total = ss.Calibration(classwise=True)
    bounds = sorted({0, examples, *(cut for cut in cuts if cut < examples)})
    for first, last in pairwise(bounds):
        part = ss.Calibration(classwise=True)
        part.update(**{key: values[first:last] for key, values in batch.items()})
        total.merge(part)
    merged = total.compute()
    assert torch.equal(merged.bins.count, whole.bins.count)
    for metric, value in whole.metrics().items():
        assert merged.metrics()[metric] == pytest.approx(value, rel=1e-12, abs=1e-12), metric


@given(st.integers(2, 60), st.integers(2, 8), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=50)
def test_order_of_examples_and_classes_does_not_matter(examples: int, classes: int, seed: int) -> None:
    logits, labels = predictions(examples, classes, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    rows, columns = torch.randperm(examples, generator=generator), torch.randperm(classes, generator=generator)
    shuffled = measure(logits=logits[rows][:, columns], labels=columns.argsort()[labels[rows]])
    for name, value in measure(logits=logits, labels=labels).metrics().items():
        assert shuffled.metrics()[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name


@given(st.integers(1, 100), st.integers(1, 6), st.integers(1, 30), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_relations_between_the_metrics(examples: int, classes: int, bins: int, seed: int) -> None:
    logits, labels = predictions(examples, classes, seed=seed)
    result = measure(bins, logits=logits, labels=labels)
    assert 0 <= result.ece <= result.rmsce + 1e-12 <= result.mce + 2e-12 <= 1 + 3e-12
    assert result.overconfidence + result.underconfidence == pytest.approx(result.ece, abs=1e-12)
    gap = result.mean_confidence - result.accuracy
    assert result.overconfidence - result.underconfidence == pytest.approx(gap, abs=1e-12)
    assert 0 <= result.brier <= 2
    assert result.nll >= 0


def test_coverage_equals_the_oracle_at_every_bin_edge() -> None:
    logits, labels = predictions(400, 5, scale=1.5)
    labels[::2] = logits[::2].argmax(1)
    probs = oracle.softmax(logits.numpy())
    correct = probs.argmax(1) == labels.numpy()
    for bins in (1, 20, 50):
        result = measure(bins, logits=logits, labels=labels)
        expected = [oracle.coverage(probs.max(1), correct, b / bins, bins) for b in range(bins)]
        np.testing.assert_allclose(result.bins.coverage(), expected, rtol=0, atol=1e-12)


def test_invalid_batches_are_named_and_add_nothing() -> None:
    """`ScoredBatch.of` checks the batches of every metric state."""
    invalid: list[tuple[dict[str, Any], str]] = [
        ({"labels": torch.tensor([0])}, "either logits= or probs="),
        ({"logits": torch.zeros(1, 2), "probs": torch.ones(1, 2) / 2, "labels": torch.tensor([0])}, "either logits="),
        (
            {"logits": torch.zeros(5, 2, 3), "labels": torch.tensor([0, 1])},
            r"shape \(N, C\).*got \(5, 2, 3\).*predictive_mean",
        ),
        ({"logits": torch.zeros(2), "labels": torch.tensor([[0, 1]])}, r"logits must have shape \(B, C\).*got \(2,\)"),
        ({"logits": torch.zeros(2, 3), "labels": torch.tensor([0])}, r"labels must have shape \(2,\).*got \(1,\)"),
        ({"logits": torch.zeros(2, 3), "labels": torch.zeros(2)}, "integer class indices, got torch.float32"),
        ({"logits": torch.zeros(2, 3), "labels": torch.tensor([0, 3])}, r"\[0, 3\).*labels\[1\] = 3"),
        ({"logits": torch.zeros(2, 3), "labels": torch.tensor([-1, 0])}, r"labels\[0\] = -1"),
        ({"logits": torch.zeros(2, 3).int(), "labels": torch.tensor([0, 0])}, "floating point"),
        ({"logits": torch.tensor([[0.0, 1.0], [0.0, math.nan]]), "labels": torch.tensor([0, 0])}, "1 of 2 rows.*row 1"),
        ({"logits": torch.tensor([[0.0, math.inf], [-math.inf, 0]]), "labels": torch.tensor([0, 0])}, "1 of 2 rows"),
        ({"logits": torch.zeros(0, 3), "labels": torch.zeros(0, dtype=torch.int64)}, "at least one example"),
        ({"logits": "logits", "labels": torch.tensor([0])}, "logits cannot be converted to a tensor"),
        (
            {"probs": torch.tensor([[0.5, 0.5], [2.0, 3.0]]), "labels": torch.tensor([0, 0])},
            "1 of 2 rows.*row 1.*sum 5",
        ),
        ({"probs": torch.tensor([[0.5, 0.495]]), "labels": torch.tensor([0])}, "1 of 1 rows.*sum 0.995"),
        ({"probs": torch.tensor([[1.5, -0.5]]), "labels": torch.tensor([0])}, "from -0.5 to 1.5"),
        ({"probs": torch.tensor([[1.0005, 0.0]]), "labels": torch.tensor([0])}, "lie in .0, 1."),
        ({"probs": torch.tensor([[math.nan, 0.5]]), "labels": torch.tensor([0])}, "row 0"),
    ]
    calibration, gathering = ss.Calibration(), ExampleGathering()
    valid: dict[str, Any] = {"logits": torch.zeros(3, 2), "labels": torch.tensor([0, 1, 0])}
    calibration.update(**valid)
    gathering.add(ScoredBatch.of(**valid))
    before = calibration.to_dict()
    for batch, message in invalid:
        is_type = any(words in message for words in ("got torch.float32", "floating point", "cannot be converted"))
        with pytest.raises(TypeError if is_type else ValueError, match=message):
            calibration.update(**batch)
        with pytest.raises(TypeError if is_type else ValueError, match=message):
            gathering.add(ScoredBatch.of(**batch))
    assert calibration.to_dict() == before
    examples = gathering.finish()
    assert len(examples) == 3
    expected = Examples.of(logits=np.zeros((3, 2)), labels=np.array([0, 1, 0]))
    assert examples.labels_digest == expected.labels_digest


def test_an_invalid_row_in_a_late_chunk_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores_module, "CHUNK_ELEMENTS", 8)
    logits, labels = predictions(20, 4)
    logits[17, 2] = float("nan")
    calibration = ss.Calibration()
    with pytest.raises(ValueError, match="1 of 20 rows are invalid; the first is row 17"):
        calibration.update(logits=logits, labels=labels)
    assert calibration.to_dict() == ss.Calibration().to_dict()


def test_invalid_bins_and_nothing_to_compute() -> None:
    invalid: list[tuple[type[Exception], Any]] = [(ValueError, 0), (ValueError, -1)]
    invalid += [(TypeError, bins) for bins in (2.5, "20", None, True)]
    for error, bins in invalid:
        with pytest.raises(error, match="bins must be a whole number of at least 1"):
            ss.Calibration(bins=bins)
    with pytest.raises(ValueError, match="at least one example"):
        ss.Calibration().compute()


@pytest.mark.parametrize("classwise", [False, True])
def test_inference_mode_and_default_devices(classwise: bool) -> None:
    logits, labels = predictions(30, 4)
    expected = measure(classwise=classwise, logits=logits, labels=labels).metrics()
    with torch.inference_mode():
        inside = ss.Calibration(classwise=classwise)
        inside.update(logits=logits[:10], labels=labels[:10])
    inside.update(logits=logits[10:], labels=labels[10:])
    with torch.device("meta"):
        elsewhere = ss.Calibration(classwise=classwise)
        elsewhere.update(logits=logits, labels=labels)
        assert ss.Calibration.from_dict(elsewhere.to_dict()).to_dict() == elsewhere.to_dict()
    for calibration in (inside, elsewhere):
        for name, value in calibration.compute().metrics().items():
            assert value == pytest.approx(expected[name], rel=1e-12), name


def test_rounded_probabilities_are_accepted_and_never_above_one() -> None:
    result = measure(probs=torch.tensor([[1.0000005, 0.0], [0.3334, 0.6667]]), labels=torch.tensor([0, 1]))
    assert result.nll >= 0
    assert result.mean_confidence <= 1
