from __future__ import annotations

from typing import Any

import numpy as np
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
