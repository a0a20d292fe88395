"""Every kind of file that users have is read with the numbers of a float64 oracle, or refused with advice."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import example_oracle
import oracle
from predictions.kinds import DOCUMENT, KINDS, Kind, Truth, table
from singleshot.evaluation.evaluation import evaluate_file
from singleshot.predictions import read_predictions

BINS = 20


def options_of(kind: Kind, folder: Path) -> dict[str, Any]:
    """Return the flags as arguments of read_predictions."""
    words = iter(shlex.split(kind.flags))
    found: dict[str, Any] = {}
    for word in words:
        name = word.removeprefix("--").replace("-", "_")
        found[name] = True if name == "normalize" else next(words)
    if str(found.get("labels", "")).endswith(".npy"):
        found["labels"] = str(folder / found["labels"])
    return found


def expected_metrics(truth: Truth) -> dict[str, float]:
    """Return the metrics that the file allows, in float64."""
    if truth.probs is not None:
        assert truth.labels is not None
        found = oracle.calibration(truth.probs, truth.labels, BINS)
        names = ("accuracy", "ece", "mce", "rmsce", "nll", "brier", "mean_confidence")
        confidence, correct = truth.probs.max(1), truth.probs.argmax(1) == truth.labels
        metrics = {name: found[name] for name in names}
        rank = confidence
        if truth.from_logits:
            others = np.where(np.arange(truth.probs.shape[1]) == truth.probs.argmax(1)[:, None], 0, truth.probs)
            rank = np.array([float(f"{-one:.12e}") for one in others.sum(1)])  # rounding errors are ties
    else:
        assert truth.confidence is not None
        assert truth.correct is not None
        confidence, correct = truth.confidence, truth.correct.astype(bool)
        rank = confidence
        groups = example_oracle.width_groups(confidence, BINS)
        metrics = {
            "accuracy": correct.mean(),
            "mean_confidence": confidence.mean(),
            "ece": example_oracle.ece(confidence, correct, groups),
        }
    return metrics | {"aurc": example_oracle.aurc(rank, correct)}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.program} {kind.file} {kind.flags}")
def test_kind(kind: Kind, tmp_path: Path) -> None:
    truth = kind.write(tmp_path)
    path = next(path for path in sorted(tmp_path.iterdir()) if path.name != "labels.npy")
    options = options_of(kind, tmp_path)
    if truth is None:
        with pytest.raises(ValueError, match=path.name) as error:
            evaluate_file(read_predictions(path, **options), replicates=0)
        assert kind.error in str(error.value)
        assert kind.error
        return
    evaluation = evaluate_file(read_predictions(path, **options), bins=BINS, replicates=0)
    found = evaluation.metrics()
    assert {name: found.get(name) for name in expected_metrics(truth)} == pytest.approx(
        expected_metrics(truth), rel=1e-7 if "float16" in kind.file else 1e-9, abs=1e-9
    )
    assert evaluation.top_class_only == (truth.probs is None)
    assert ("nll" in found) == ("brier" in found) == (truth.probs is not None)
    assert evaluation.positive_name == truth.positive
    if truth.positive is not None:
        assert truth.probs is not None
        assert evaluation.positive is not None
        positive, is_positive = truth.probs[:, 1], truth.labels == 1
        groups = example_oracle.width_groups(positive, BINS)
        expected = example_oracle.ece(positive, np.asarray(is_positive), groups)
        assert evaluation.positive.ece == pytest.approx(expected, abs=1e-9)


def test_the_table_has_40_kinds_and_is_in_the_guide() -> None:
    assert len(KINDS) >= 40
    assert table() in DOCUMENT.read_text(encoding="utf-8"), "run: PYTHONPATH=src:tests python -m predictions.kinds"
