"""Labels that do not fit the predictions: swapped, shifted or in another order; and labels that do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import oracle
from singleshot.cli.main import main
from singleshot.evaluation.evaluation import Evaluation, evaluate_batches
from singleshot.evaluation.label_check import LabelCheck
from singleshot.evaluation.verdict import verdict
from singleshot.metrics.examples import ScoredBatch

Array = NDArray[Any]


def sure(classes: int, rows: int = 2000, scale: float = 4.0, seed: int = 0) -> tuple[Array, Array]:
    """Return calibrated logits of a good classifier and labels."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(rows, classes)) * scale
    return logits, (oracle.softmax(logits).cumsum(1) > generator.random((rows, 1))).argmax(1)


def evaluated(logits: Array, labels: Array, **options: Any) -> Evaluation:
    halves = slice(0, len(labels) // 2), slice(len(labels) // 2, None)
    batches = ({"logits": logits[half], "labels": labels[half]} for half in halves)
    return evaluate_batches(batches, replicates=0, **options)


@pytest.mark.parametrize(
    ("classes", "change", "finding", "advice"),
    [
        (2, lambda y: 1 - y, "the labels look swapped: only ", "order of the two classes"),
        (10, lambda y: (y + 1) % 10, "the labels look counted from 1: only ", "subtract 1"),
        (10, lambda y: np.minimum(y + 1, 9), "the labels look counted from 1: only ", "subtract 1"),
        (10, lambda y: (y - 1) % 10, "the labels look one too small: only ", "add 1"),
        (
            12,
            lambda y: np.argsort(np.argsort([str(i) for i in range(12)]))[y],
            "another order of the classes",
            "class 2 ",
        ),
    ],
)
def test_wrong_labels_are_named_first(classes: int, change: Any, finding: str, advice: str) -> None:
    logits, labels = sure(classes)
    found = evaluated(logits, change(labels))
    assert found.label_fault is not None
    assert found.label_fault.is_certain
    assert finding in found.label_fault.finding
    assert advice in found.label_fault.advice
    assert (found.to_dict()["label_fault"]["finding"]) == found.label_fault.finding
    judged = verdict(found)
    assert judged.badge == "Check the labels"
    assert judged.finding == found.label_fault.finding


def test_labels_that_no_order_explains_are_only_doubted() -> None:
    """As in a set of adversarial examples, where no prediction is right."""
    for classes in (5, 200):
        logits, _ = sure(classes, 10_000)
        others = np.random.default_rng(1).integers(1, classes, len(logits))
        found = evaluated(logits, (logits.argmax(1) + others) % classes)
        assert found.label_fault is not None
        assert not found.label_fault.is_certain
        assert "may not fit the predictions" in found.label_fault.finding
        judged = verdict(found)
        assert judged.badge == "Miscalibrated"
        assert judged.finding.startswith("overconfident by ")
        assert judged.label_advice is None
        assert "may not fit the predictions" in " ".join(judged.sentences)


def of_pairs(*pairs: tuple[int, int, int]) -> Evaluation:
    """Evaluate so many examples of each predicted class and label, of two classes."""
    predicted, labels, counts = np.array(pairs).T
    predicted, labels = np.repeat(predicted, counts), np.repeat(labels, counts)
    return evaluated(np.eye(2)[predicted], labels)


def test_useless_models_of_two_classes_are_no_fault_of_the_labels() -> None:
    rare = of_pairs((1, 1, 20), (1, 0, 380), (0, 1, 380), (0, 0, 1220))  # anti-correlated, but exchanging is worse
    assert rare.label_fault is None
    assert verdict(rare).finding.startswith("overconfident by 11.1 points")
    slight = of_pairs((1, 1, 248_500), (1, 0, 251_500), (0, 1, 251_500), (0, 0, 248_500))  # 49.7 % right
    assert slight.label_fault is None
    weak = of_pairs((1, 1, 300), (1, 0, 700), (0, 1, 700), (0, 0, 300))  # exchanged, 70 % would be right
    assert weak.label_fault is not None
    assert not weak.label_fault.is_certain
    assert weak.label_fault.advice == "Check the order of the two classes."
    imbalanced = of_pairs((0, 0, 20), (0, 1, 180), (1, 0, 1780), (1, 1, 20))
    assert imbalanced.label_fault is not None
    assert not imbalanced.label_fault.is_certain  # always to predict class 0 would be right as often


def test_batches_without_examples_and_of_many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, labels = sure(10)
    expected = evaluated(logits, (labels + 1) % 10).label_fault
    monkeypatch.setattr("singleshot.metrics.examples.CHUNK_ELEMENTS", 70)
    batches: list[dict[str, Any]] = [
        {"logits": logits[:2], "labels": np.array([-100, -100]), "ignore_index": -100},
        {"logits": logits, "labels": (labels + 1) % 10},
    ]
    assert evaluate_batches(batches, replicates=0).label_fault == expected
    sizes: list[int] = []
    of_batch = ScoredBatch.predicted

    def predicted(self: ScoredBatch, rows: Any) -> Any:
        sizes.append(len(rows))
        return of_batch(self, rows)

    monkeypatch.setattr(ScoredBatch, "predicted", predicted)
    LabelCheck().add(ScoredBatch.of(logits=logits, labels=(labels + 1) % 10))
    assert max(sizes) <= 7  # rows that are copied at once
    assert LabelCheck().fault() is None


@pytest.mark.parametrize("classes", [2, 3, 10, 200])
def test_right_labels_raise_no_doubt(classes: int) -> None:
    for seed, (rows, scale) in enumerate([(40, 0.0), (40, 1.0), (2000, 0.0), (2000, 0.5), (2000, 4.0)]):
        logits, labels = sure(classes, rows, scale, seed)
        logits = logits + np.random.default_rng(seed).normal(size=logits.shape) * 1e-3  # no ties
        assert evaluated(logits, labels).label_fault is None
        assert evaluated(logits * 20, labels).label_fault is None  # overconfident


def test_predictions_of_a_rare_class_only_are_not_swapped_labels() -> None:
    labels = (np.random.default_rng(0).random(2000) < 0.9).astype(int)
    assert evaluated(np.tile([2.0, 0.0], (2000, 1)), labels).label_fault is None


def test_top_classes_and_many_classes() -> None:
    logits, labels = sure(10)
    top: dict[str, Any] = {"confidence": oracle.softmax(logits).max(1), "predicted": logits.argmax(1)}
    found = evaluate_batches([{**top, "labels": labels + 1}], replicates=0)  # another class appears
    assert found.label_fault is not None
    assert "counted from 1" in found.label_fault.finding
    assert evaluate_batches([{**top, "labels": labels}], replicates=0).label_fault is None
    many = np.zeros((60, 1025))
    many[:, 3] = 9.0
    assert evaluated(many, np.full(60, 4)).label_fault is None  # too many classes to look


def test_evaluate_and_report_say_it_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logits, labels = sure(2)
    path, page = str(tmp_path / "a.npz"), str(tmp_path / "page.html")
    np.savez(path, probs=oracle.softmax(logits)[:, 1], labels=1 - labels)
    main(["evaluate", path, "--replicates", "0"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("Check the labels: the labels look swapped: only ")
    assert "--positive LABEL" in " ".join(lines[1:4])
    assert sum("swapped" in line or "--positive" in line for line in lines) == 2  # the finding and the advice, once
    main(["evaluate", path, "--replicates", "0", "--json"])
    content = json.loads(capsys.readouterr().out)
    assert content["label_fault"]["finding"].startswith("the labels look swapped")
    assert content["verdict"]["badge"] == "Check the labels"
    assert content["verdict"]["sentences"][0].startswith("The labels look swapped")
    main(["report", path, "-o", page, "--replicates", "0", "--json"])
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert model["badge"] == "Check the labels"
    assert model["next_step"]["commands"] == []
    assert "Check the labels first" in model["next_step"]["action"]
    main(["evaluate", path, "--replicates", "0", "--json", "--positive", "0"])
    assert "label_fault" not in json.loads(capsys.readouterr().out)
