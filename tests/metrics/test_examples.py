from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
import torch
from hypothesis import given, settings, strategies as st

import oracle
import singleshot as ss
from singleshot.metrics import ExampleGathering, Examples, ScoredBatch


def predictions(size: int = 50, classes: int = 5, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(size, classes, dtype=torch.float64, generator=generator) * 3
    return logits, torch.randint(0, classes, (size,), generator=generator)


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_every_value_equals_the_oracle(kind: str) -> None:
    logits, labels = predictions()
    probs = oracle.softmax(logits.numpy())
    examples = Examples.of(**{kind: logits if kind == "logits" else probs}, labels=labels)
    rows = np.arange(len(labels))
    np.testing.assert_allclose(examples.confidence, probs.max(1), rtol=1e-12)
    np.testing.assert_array_equal(examples.correct, probs.argmax(1) == labels.numpy())
    np.testing.assert_allclose(examples.nll, -np.log(probs[rows, labels.numpy()]), rtol=1e-10)
    np.testing.assert_allclose(examples.brier, ((probs - np.eye(5)[labels.numpy()]) ** 2).sum(1), rtol=1e-10)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6))
@settings(max_examples=25, deadline=None)
def test_batches_of_any_size_give_the_same_examples(sizes: list[int]) -> None:
    logits, labels = predictions(sum(sizes))
    parts = zip(torch.split(logits, sizes), torch.split(labels, sizes), strict=True)
    gathering = ExampleGathering()
    for part, target in parts:
        gathering.add(ScoredBatch.of(logits=part, labels=target))
    gathered = gathering.finish()
    at_once = Examples.of(logits=logits, labels=labels)
    for name in ("confidence", "correct", "nll", "brier"):
        assert torch.equal(getattr(gathered, name), getattr(at_once, name))
    assert gathered.labels_digest == at_once.labels_digest
    assert len(gathered) == sum(sizes)


def test_the_digest_depends_on_labels_only() -> None:
    logits, labels = predictions()
    digest = Examples.of(logits=logits, labels=labels).labels_digest
    assert Examples.of(logits=-logits, labels=labels.to(torch.int16)).labels_digest == digest
    assert Examples.of(logits=logits, labels=labels.flip(0)).labels_digest != digest


def test_float32_examples_take_25_bytes() -> None:
    logits, labels = predictions()
    examples = Examples.of(logits=logits.float(), labels=labels)
    assert examples.doubt is not None
    fields = (examples.confidence, examples.correct, examples.nll, examples.brier, examples.doubt)
    assert sum(field.element_size() for field in fields) == 25


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_binned_metrics_equal_those_of_a_calibration(dtype: torch.dtype, kind: str) -> None:
    logits, labels = predictions(200)
    scores = (logits if kind == "logits" else logits.softmax(1)).to(dtype)
    batch: dict[str, Any] = {kind: scores, "labels": labels}
    calibration = ss.Calibration(bins=20)
    calibration.update(**batch)
    result = calibration.compute()
    from singleshot.metrics import bootstrap

    intervals = bootstrap(Examples.of(**batch), replicates=2)
    tolerance = 1e-12 if dtype == torch.float64 else 2e-3 if dtype in (torch.float16, torch.bfloat16) else 1e-6
    for name in ("accuracy", "ece", "mce", "rmsce", "nll", "brier", "mean_confidence"):
        assert intervals[name].estimate == pytest.approx(getattr(result, name), abs=tolerance), name


def test_empty_and_unequal_fields_are_refused() -> None:
    gathering = ExampleGathering()
    with pytest.raises(ValueError, match="no examples yet"):
        gathering.finish()
    with pytest.raises(ValueError, match="one shape"):
        Examples(torch.ones(2), torch.ones(1, dtype=torch.bool), torch.ones(2), torch.ones(2))


def test_logits_near_the_largest_float32_have_a_finite_nll() -> None:
    logits = torch.tensor([[3e38, -3e38], [3e38, 2.5e38], [1.0, 0.0]])
    labels = torch.tensor([1, 1, 1])
    wide = logits.double()
    expected = wide.amax(1) - wide[:, 1] + torch.tensor([0.0, 0.0, math.log1p(math.exp(-1))], dtype=torch.float64)
    torch.testing.assert_close(Examples.of(logits=logits, labels=labels).nll, expected, rtol=1e-6, atol=0)
    calibration = ss.Calibration()
    calibration.update(logits=logits, labels=labels)
    assert calibration.compute().nll == pytest.approx(float(expected.mean()), rel=1e-6)


def test_the_columns_of_a_frame_are_the_classes() -> None:
    frame = pd.DataFrame([[0.7, 0.3], [0.4, 0.6], [0.9, 0.1]], columns=["cat", "dog"])
    expected = Examples.of(probs=frame.to_numpy(), labels=[0, 1, 1])
    for labels in (pd.Series(["cat", "dog", "dog"]), pd.Categorical(["cat", "dog", "dog"]), [[0], [1], [1]]):
        found = Examples.of(probs=frame, labels=labels)
        assert torch.equal(found.nll, expected.nll)
        assert found.labels_digest == expected.labels_digest
    calibration = ss.Calibration()
    calibration.update(probs=frame, labels=["cat", "dog", "dog"])
    assert calibration.compute().accuracy == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match=r"unknown labels cow; the columns are cat, dog"):
        Examples.of(probs=frame, labels=["cat", "cow", "dog"])
    with pytest.raises(ValueError, match=r"ambiguous: the columns are the classes 1, 2"):
        Examples.of(probs=frame.set_axis([1, 2], axis=1), labels=[1, 0, 1])


def test_minus_infinity_is_the_logit_of_probability_0() -> None:
    logits = np.array([[0.0, -np.inf, 1.0], [2.0, -np.inf, -np.inf], [-np.inf, 0.0, 0.0]])
    probs, labels = oracle.softmax(logits), np.array([2, 0, 0])
    examples = Examples.of(logits=logits, labels=labels)
    np.testing.assert_allclose(examples.confidence, probs.max(1), rtol=1e-15)
    np.testing.assert_allclose(examples.brier, ((probs - np.eye(3)[labels]) ** 2).sum(1), rtol=1e-12)
    assert examples.nll.isinf().tolist() == [False, False, True]
    for bad in ([np.nan, 0, 0], [np.inf, 0, 0], [-np.inf] * 3):
        with pytest.raises(ValueError, match="logits must be numbers"):
            Examples.of(logits=np.array([bad, [0.0, 1, 2]], dtype=float), labels=[0, 1])


def test_only_the_top_class_is_known() -> None:
    batch = ScoredBatch.of_top_class(confidence=[0.9, 0.6, 0.7], predicted=[3, 1, 1], labels=[3, 1, 0])
    calibration = ss.Calibration()
    calibration.add(batch)
    metrics = calibration.compute().metrics()
    assert metrics["ece"] == pytest.approx((0.1 + 0.4 + 0.7) / 3)
    assert "nll" not in metrics
    assert "brier" not in metrics
    assert batch.predicted().tolist() == [3, 1, 1]
    restored = ss.Calibration.from_dict(calibration.to_dict()).compute()
    assert restored.metrics() == metrics
    with pytest.raises(ValueError, match="not the probability of every class"):
        batch.probs()
    with pytest.raises(ValueError, match=r"confidence must lie in \[0, 1\]"):
        ScoredBatch.of_top_class(confidence=[1.5], predicted=[0], labels=[0])
