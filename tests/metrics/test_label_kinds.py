"""Metrics of dense scores, binary classifiers, named classes and several labels per example."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import oracle
import singleshot as ss


def measure(**batch: Any) -> ss.CalibrationResult:
    calibration = ss.Calibration()
    calibration.update(**batch)
    return calibration.compute()


def test_dense_scores_equal_their_flattened_form() -> None:
    logits = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(0, 3, (2, 4, 5), generator=torch.Generator().manual_seed(1))
    rows, flat = logits.movedim(1, -1).reshape(-1, 3), labels.flatten()
    assert measure(logits=logits, labels=labels).to_dict() == measure(logits=rows, labels=flat).to_dict()
    probs = logits.softmax(1)
    assert measure(probs=probs, labels=labels).nll == pytest.approx(measure(logits=rows, labels=flat).nll, rel=1e-5)
    ignored = labels.clone()
    ignored[0, :2] = 255
    kept = ignored.flatten() != 255
    found = measure(logits=logits, labels=ignored, ignore_index=255)
    assert found.to_dict() == measure(logits=rows[kept], labels=flat[kept]).to_dict()
    examples = ss.Examples.of(logits=logits, labels=ignored, ignore_index=255)
    assert len(examples) == found.count == int(kept.sum())
    with pytest.raises(ValueError, match=r"labels\[0\] = 255"):
        measure(logits=logits, labels=ignored)


def test_a_batch_without_counted_examples_adds_nothing() -> None:
    calibration = ss.Calibration(classwise=True)
    calibration.update(logits=torch.randn(2, 3, 4), labels=torch.full((2, 4), -100), ignore_index=-100)
    with pytest.raises(ValueError, match="nothing to compute yet"):
        calibration.compute()
    calibration.update(logits=torch.randn(2, 3, 4), labels=torch.zeros(2, 4, dtype=torch.int64), ignore_index=-100)
    assert calibration.compute().count == 8


def test_classes_in_the_last_dimension_are_an_error_that_says_what_to_do() -> None:
    tokens, labels = torch.randn(2, 7, 3), torch.zeros(2, 7, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"shape \(2, 3\).*got \(2, 7\).*dimension 1.*logits\.movedim\(-1, 1\)"):
        measure(logits=tokens, labels=labels)
    assert measure(logits=tokens.movedim(-1, 1), labels=labels).count == 14


def test_one_score_of_a_binary_classifier() -> None:
    logit = torch.tensor([2.0, -1.0, 0.5, -3.0], dtype=torch.float64)
    labels = torch.tensor([1, 1, 0, 0])
    p = oracle.softmax(np.stack([np.zeros(4), logit.numpy()], 1))
    expected = oracle.calibration(p, labels.numpy(), 20)
    for scores in (
        {"logits": logit},
        {"logits": logit[:, None]},
        {"probs": logit.sigmoid()},
        {"probs": logit.sigmoid()[:, None].tolist()},
    ):
        for given in (labels, labels.bool(), labels.bool().numpy(), [True, True, False, False]):
            result = measure(**scores, labels=given)
            for name in ("accuracy", "ece", "mce", "nll", "brier"):
                assert getattr(result, name) == pytest.approx(expected[name], abs=1e-7), name
    with pytest.raises(TypeError, match=r"got torch\.bool, which name two classes only"):
        measure(logits=torch.randn(2, 3), labels=torch.tensor([True, False]))
    with pytest.raises(ValueError, match=r"lie in \[0, 2\)"):
        measure(logits=logit, labels=labels + 1)
    with pytest.raises(ValueError, match="probs must lie in"):
        measure(probs=logit, labels=labels)


def test_names_of_classes_as_scikit_learn_has_them() -> None:
    data = load_breast_cancer()
    names = data.target_names[data.target]  # 'malignant' and 'benign', which sort in another order
    inputs = StandardScaler().fit_transform(data.data)
    classifier = LogisticRegression(max_iter=1000).fit(inputs[:300], names[:300])
    probs = classifier.predict_proba(inputs[300:])
    accuracy = classifier.score(inputs[300:], names[300:])
    for labels in (names[300:], names[300:].tolist(), pd.Series(names[300:])):
        assert measure(probs=probs, labels=labels, classes=classifier.classes_).accuracy == pytest.approx(accuracy)
        with pytest.raises(TypeError, match=r"pass classes= as well.*classifier\.classes_"):
            measure(probs=probs, labels=labels)
    assert len(ss.Examples.of(probs=probs, labels=names[300:], classes=classifier.classes_)) == len(probs)
    numbers = measure(probs=probs, labels=[30 if name == "malignant" else 10 for name in names[300:]], classes=[10, 30])
    assert numbers.accuracy == pytest.approx(accuracy)
    with pytest.raises(ValueError, match=r"labels must be in classes=\['a', 'b'\], got .*'c'"):
        measure(probs=probs[:2], labels=["a", "c"], classes=["a", "b"])


def test_every_label_of_a_multi_label_classifier_has_its_calibration() -> None:
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(300, 4)) * [0.1, 1, 3, 30]
    probs = 1 / (1 + np.exp(-logits))
    labels = (generator.random((300, 4)) < probs).astype(int)
    labels[:, 3] = 1 - labels[:, 3]  # always wrong
    calibration, halves = ss.MultiLabelCalibration(bins=15), ss.MultiLabelCalibration(bins=15)
    calibration.update(logits=logits, labels=labels)
    halves.update(probs=probs[:100], labels=labels[:100] > 0)
    halves.merge(ss.MultiLabelCalibration.from_dict(calibration.to_dict()).reset())
    halves.update(probs=torch.tensor(probs[100:]), labels=torch.tensor(labels[100:]))
    for result in (calibration.compute(), halves.compute()):
        assert result.count.tolist() == [300] * 4
        np.testing.assert_allclose(result.frequency, labels.mean(0), atol=1e-12, rtol=0)
        np.testing.assert_allclose(result.mean_probability, probs.mean(0), atol=1e-12, rtol=0)
        np.testing.assert_allclose(result.brier, ((probs - labels) ** 2).mean(0), atol=1e-12, rtol=0)
        for label in range(4):
            expected = 0.0
            index = np.array([oracle.which_bin(p, 15) for p in probs[:, label]])
            for one in set(index.tolist()):
                inside = index == one
                expected += inside.mean() * abs(probs[inside, label].mean() - labels[inside, label].mean())
            assert float(result.ece[label]) == pytest.approx(expected, abs=1e-12)
        assert float(result.ece[3]) > 0.8


def test_unknown_and_invalid_labels_of_a_multi_label_classifier() -> None:
    calibration = ss.MultiLabelCalibration()
    calibration.update(logits=torch.zeros(3, 2), labels=torch.tensor([[1, -1], [0, 1], [1, -1]]), ignore_index=-1)
    result = calibration.compute()
    assert result.count.tolist() == [3, 1]
    assert result.frequency.tolist() == pytest.approx([2 / 3, 1])
    before = calibration.to_dict()
    invalid: list[tuple[dict[str, Any], str]] = [
        ({"logits": torch.zeros(2, 2), "labels": torch.tensor([0, 1])}, r"shape of the logits, \(2, 2\), got \(2,\)"),
        ({"logits": torch.zeros(1, 2), "labels": torch.tensor([[0, 2]])}, "0 or 1, got 2"),
        ({"probs": torch.tensor([[0.5, 1.5]]), "labels": torch.tensor([[0, 1]])}, "from 0.5 to 1.5"),
        ({"logits": torch.tensor([[0.5, torch.nan]]), "labels": torch.tensor([[0, 1]])}, "finite"),
        ({"labels": torch.tensor([[0, 1]])}, "either logits= or probs="),
        ({"logits": torch.zeros(1, 3), "labels": torch.zeros(1, 3)}, "different options"),
    ]
    for batch, message in invalid:
        with pytest.raises(ValueError, match=message):
            calibration.update(**batch)
    assert calibration.to_dict() == before
