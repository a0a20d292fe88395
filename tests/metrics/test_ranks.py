"""Confidences keep their order and their distance from 1: nothing that is ranked or binned by mass ties in float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import example_oracle
import oracle
from singleshot.evaluation.calibrating import rescale
from singleshot.evaluation.evaluation import evaluate_batches, evaluate_file
from singleshot.metrics import ExampleGathering, Examples, ScoredBatch, adaptive_ece, risk_coverage
from singleshot.posthoc import HistogramBinning
from singleshot.predictions import read_predictions


def saturated(rows: int = 6000, classes: int = 10, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return float32 logits of which 30 % of the confidences round to 1 in float32, and labels that are often wrong."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(rows, classes)) * 2
    top = generator.integers(0, classes, rows)
    sure = generator.random(rows) < 0.3
    logits[np.arange(rows), top] += np.where(sure, generator.uniform(25, 29, rows), generator.uniform(0, 8, rows))
    labels = np.where(generator.random(rows) < 0.9, top, generator.integers(0, classes, rows))
    return torch.from_numpy(logits.astype(np.float32)), torch.from_numpy(labels)


def ranked(logits: torch.Tensor, labels: torch.Tensor) -> tuple[oracle.Array, oracle.Array, NDArray[np.bool_]]:
    """Return 1 − confidence as a sum of the other probabilities, which does not round, confidence and correctness."""
    probs = oracle.softmax(logits.double().numpy())
    predicted = probs.argmax(1)
    others = np.where(np.arange(probs.shape[1]) == predicted[:, None], 0, probs)
    return others.sum(1), probs.max(1), predicted == labels.numpy()


def equal_mass_ece(doubt: oracle.Array, confidence: oracle.Array, correct: NDArray[np.bool_]) -> float:
    return example_oracle.ece(confidence, correct, example_oracle.mass_groups(-doubt, 20))


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_aurc_and_equal_mass_ece_equal_float64_streamed_and_merged(classes: int) -> None:
    logits, labels = saturated(classes=classes)
    assert 0.25 < float((logits.softmax(1).amax(1) == 1).float().mean()) < 0.4
    doubt, confidence, correct = ranked(logits, labels)
    expected = {
        "aurc": example_oracle.aurc(-doubt, correct),
        "adaptive_ece": equal_mass_ece(doubt, confidence, correct),
    }
    parts = list(zip(torch.split(logits, 777), torch.split(labels, 777), strict=True))
    gathering = ExampleGathering()
    for part, target in parts:
        gathering.add(ScoredBatch.of(logits=part, labels=target))
    merged = Examples.of(logits=parts[0][0], labels=parts[0][1])
    for part, target in parts[1:]:
        merged = merged.merge(Examples.of(logits=part, labels=target))
    for examples in (Examples.of(logits=logits, labels=labels), gathering.finish(), merged):
        assert risk_coverage(examples).aurc == pytest.approx(expected["aurc"], abs=1e-9)
        assert adaptive_ece(examples) == pytest.approx(expected["adaptive_ece"], abs=1e-9)
    batches = ({"logits": part.numpy(), "labels": target.numpy()} for part, target in parts)
    for given in (batches, [{"logits": logits, "labels": labels}]):
        found = evaluate_batches(given, replicates=0).metrics()
        assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-9)


def test_a_calibrated_file_keeps_the_ranks(tmp_path: Path) -> None:
    logits, labels = saturated(classes=5)
    logits = logits / 8  # distinct in float64, and tied in float32 after histogram binning
    np.savez(tmp_path / "a.npz", logits=logits.numpy(), labels=labels.numpy())
    scaling = HistogramBinning.fit(logits, labels)
    rescale(read_predictions(tmp_path / "a.npz"), scaling, output=tmp_path / "b.npz")
    expected = equal_mass_ece(*ranked(scaling(logits.double()), labels))
    tied = Examples.of(logits=scaling(logits), labels=labels)
    found = evaluate_file(read_predictions(tmp_path / "b.npz"), replicates=0).metrics()["adaptive_ece"]
    assert found == pytest.approx(expected, abs=1e-9)
    assert abs(adaptive_ece(tied) - expected) > 1e-5


def test_rounding_errors_do_not_break_ties() -> None:
    row = torch.randn(10, generator=torch.Generator().manual_seed(0)).half().float() * 3
    permuted = torch.stack([row[torch.randperm(10, generator=torch.Generator().manual_seed(i))] for i in range(200)])
    examples = Examples.of(logits=permuted, labels=torch.zeros(200, dtype=torch.int64))
    assert len(risk_coverage(examples).coverage) == 1


@pytest.mark.parametrize("classes", [2, 10, 32, 33, 100])
def test_equal_rows_tie_wherever_they_are(classes: int) -> None:
    row = torch.randn(1, classes, generator=torch.Generator().manual_seed(0)) * 3
    for size in (1, 7, 1003, 5001):
        examples = Examples.of(logits=row.expand(size, classes), labels=torch.zeros(size, dtype=torch.int64))
        assert len(set(examples.confidence.tolist())) == 1


def test_merged_examples_do_not_claim_an_order_of_labels() -> None:
    one = Examples.of(probs=[[0.9, 0.1]], labels=[0])
    merged = one.merge(one)
    assert len(merged) == 2
    assert merged.labels_digest == ""
