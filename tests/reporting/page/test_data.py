"""The data of a page against plain numpy, and against what ``singleshot evaluate`` prints."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

import oracle
from integration.overconfident import run, write_overconfident
from singleshot.cli.evaluate import evaluate
from singleshot.metrics import Calibration, Examples, risk_coverage, threshold_for_accuracy
from singleshot.metrics.selective import accepted_at
from singleshot.reporting.page import file_report, page_data
from singleshot.reporting.page.content import BIN_CHOICES, EXPLORED, FINE_BINS, MAX_POINTS, fine_bins
from singleshot.reporting.page.outcomes import CONFUSION_THRESHOLD


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    write_overconfident(folder)
    with np.load(folder / "test.npz") as file:
        np.savez(folder / "calmer.npz", logits=file["logits"] / 2, labels=file["labels"], class_names=list("abcd"))
    return folder


@pytest.fixture(scope="module")
def data(place: Path) -> dict[str, Any]:
    return page_data(map(file_report, (place / "test.npz", place / "calmer.npz", place / "val.npz")), title="three")


def probs_and_labels(place: Path, name: str) -> tuple[Any, Any]:
    with np.load(place / name) as file:
        return oracle.softmax(file["logits"].astype(np.float64)), file["labels"]


DIVIDED = st.sampled_from([*BIN_CHOICES, FINE_BINS])


@settings(max_examples=60, deadline=None)
@given(
    values=arrays.arrays(np.float64, st.integers(1, 200), elements=st.floats(0.5, 1)),
    edges=st.lists(st.tuples(DIVIDED, st.floats(0.5, 1)), max_size=50),
    dtype=st.sampled_from([torch.float16, torch.float32, torch.float64]),
    bins=st.sampled_from(BIN_CHOICES),
)
def test_fine_bins_add_up_to_the_bins_of_calibration(
    values: Any, edges: list[tuple[int, float]], dtype: torch.dtype, bins: int
) -> None:
    on_edges = [np.ceil(share * parts) / parts for parts, share in edges]
    top = torch.from_numpy(np.append(values, on_edges)).to(dtype)
    probs = torch.stack([top, 1 - top], 1)
    labels = torch.arange(len(top)) % 2
    calibration = Calibration(bins=bins)
    calibration.update(probs=probs, labels=labels)
    expected = calibration.compute().bins
    found = {name: sums.numpy() for name, sums in fine_bins(Examples.of(probs=probs, labels=labels)).items()}
    coarse = {name: sums.reshape(bins, -1).sum(1) for name, sums in found.items()}
    assert coarse["count"].tolist() == expected.count.tolist()
    filled = coarse["count"] > 0
    for name, means in (("correct", expected.accuracy), ("confidence", expected.confidence)):
        assert coarse[name][filled] / coarse["count"][filled] == pytest.approx(means.numpy()[filled], rel=1e-12)


def test_metrics_and_comparisons_are_those_of_evaluate(
    place: Path, data: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run(evaluate, *(str(place / f"{name}.npz") for name in ("test", "calmer", "val")), "--json")
    said = json.loads(capsys.readouterr().out)
    for model, evaluation in zip(data["models"], said["evaluations"], strict=True):
        assert [column["name"] for column in data["metrics"]] == list(model["metrics"])
        for name, found in model["metrics"].items():
            interval = evaluation["intervals"][name]
            expected = {"estimate": evaluation[name], "low": interval["low"], "high": interval["high"]}
            assert found == {**expected, "infinite": False}, name
    assert [column["title"] for column in data["compared"]] == ["Accuracy", "ECE, debiased", "NLL", "Brier"]
    near, other = data["comparisons"]
    assert (near["why"], other["differences"]) == (None, [])
    assert "labels differ" in other["why"]
    expected = said["comparisons"][0]["differences"]
    assert [one["metric"] for one in near["differences"]] == list(expected) == ["accuracy", "ece", "nll", "brier"]
    for one in near["differences"]:
        assert one == {field: expected[one["metric"]][field] for field in one}


def test_the_numbers_are_those_of_the_oracle(place: Path, data: dict[str, Any]) -> None:
    model = data["models"][0]
    probs, labels = probs_and_labels(place, "test.npz")
    expected = oracle.calibration(probs, labels, 20)
    for name in ("accuracy", "ece", "mce", "rmsce", "nll", "brier", "mean_confidence", "overconfidence"):
        assert model["metrics"][name]["estimate"] == pytest.approx(expected[name], abs=1e-6), name
    confidence, predicted = probs.max(1), probs.argmax(1)
    wrong = predicted != labels
    assert (model["count"], model["classes"]) == (1500, 4)
    assert sum(model["fine"]["count"]) == 1500
    assert sum(model["fine"]["correct"]) == int((~wrong).sum())
    assert sum(model["fine"]["confidence"]) == pytest.approx(confidence.sum(), abs=1e-3)
    for entry in model["classes_by_gap"]:
        of_class = predicted == "abcd".index(entry["class"])
        assert entry["count"] == of_class.sum()
        assert entry["accuracy"] == pytest.approx(1 - wrong[of_class].mean())
        assert entry["confidence"] == pytest.approx(confidence[of_class].mean(), abs=1e-6)
        assert entry["gap"] == pytest.approx(entry["confidence"] - entry["accuracy"])
    worth = [abs(entry["gap"]) * entry["count"] ** 0.5 for entry in model["classes_by_gap"]]
    assert len(worth) == 4
    assert worth == sorted(worth, reverse=True)
    confident = wrong & (confidence >= CONFUSION_THRESHOLD)
    assert data["confusion_threshold"] == CONFUSION_THRESHOLD
    assert sum(entry["count"] for entry in model["confusions"]) == confident.sum()
    for entry in model["confusions"]:
        mixed = confident & (labels == "abcd".index(entry["label"])) & (predicted == "abcd".index(entry["predicted"]))
        assert entry["count"] == mixed.sum()
        assert entry["confidence"] == pytest.approx(confidence[mixed].mean(), abs=1e-6)


def test_curves(place: Path, data: dict[str, Any]) -> None:
    model = data["models"][0]
    with np.load(place / "test.npz") as file:
        examples = Examples.of(logits=file["logits"], labels=file["labels"])
    curve, found = risk_coverage(examples), model["risk_coverage"]
    assert found["aurc"] == curve.aurc == pytest.approx(model["metrics"]["aurc"]["estimate"])
    assert 300 < len(found["risk"]) <= MAX_POINTS
    at = np.searchsorted(curve.coverage, found["coverage"])
    assert curve.risk[at].tolist() == found["risk"]
    assert (at[0], at[-1]) == (0, len(curve.coverage) - 1)


def test_thresholds_accept_equal_and_higher_confidences_of_every_dtype() -> None:
    assert list(EXPLORED) == sorted(set(EXPLORED))
    for dtype in (np.float16, np.float32, np.float64):
        check_threshold_counts(dtype)


def check_threshold_counts(dtype: type[np.floating[Any]]) -> None:
    random = np.random.default_rng(0)
    top = np.append(random.uniform(0.5, 1, 500), [0.5, 0.95, 0.999, 0.99991, 1, 1]).astype(dtype)
    labels = random.integers(0, 2, len(top))
    counted, correct = accepted_at(Examples.of(probs=np.stack([top, 1 - top], 1), labels=labels), EXPLORED)
    for place, threshold in enumerate(EXPLORED):
        accepted = top >= dtype(threshold)
        assert (counted[place], correct[place]) == (
            accepted.sum(),
            (accepted & (labels == 0)).sum(),
        )


def test_the_page_has_the_thresholds_of_threshold_for_accuracy(place: Path, data: dict[str, Any]) -> None:
    rules, model = data["guarantee"], data["models"][0]
    with np.load(place / "test.npz") as file:
        examples = Examples.of(logits=file["logits"], labels=file["labels"])
    reached = 0
    for accuracy in np.linspace(0.3, 0.99, 70):
        expected = threshold_for_accuracy(examples, accuracy, confidence=rules["certainty"])
        if expected.threshold is None:
            assert all(model["guaranteed_accuracies"][start] < accuracy for start in rules["starts"])
            continue
        reached += 1
        at = data["thresholds"].index(expected.threshold)
        accepted, correct = (model["at_threshold"][name][at] for name in ("accepted", "correct"))
        assert (accepted, accepted / 1500) == (expected.accepted, expected.coverage)
        assert correct / accepted == expected.accuracy
        assert model["guaranteed_accuracies"][rules["thresholds"].index(expected.threshold)] == expected.lower_bound
    assert 10 < reached < 70


def test_files_have_nothing_of_a_run_and_everything_is_plain(data: dict[str, Any]) -> None:
    for model in data["models"]:
        assert {model[name] for name in ("passes", "training", "recipe")} == {None}
        assert {"singleshot", "torch", "numpy", "python"} <= set(model["environment"])
        content = Path(model["name"]).read_bytes()
        assert model["file"] == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        assert model["command"].startswith("singleshot evaluate ")
        assert re.match(
            r"1,500 examples, 4 classes, logits; accuracy \d\d\.\d %; 95 % intervals from 1,000 resamples",
            model["about"],
        )
    json.dumps(data, allow_nan=False)
    assert data["bin_choices"] == list(BIN_CHOICES)
    assert all(FINE_BINS % bins == 0 for bins in BIN_CHOICES)


def test_extreme_predictions_stay_finite(tmp_path: Path) -> None:
    np.savez(tmp_path / "never.npz", probs=np.array([[1.0, 0.0]] * 40), labels=np.arange(40) % 2)
    np.savez(tmp_path / "one.npz", logits=np.zeros((1, 1)), labels=np.zeros(1, int))
    np.savez(tmp_path / "all.npz", logits=np.array([[9.0, 0.0]] * 50), labels=np.zeros(50, int))
    found = page_data(map(file_report, sorted(tmp_path.glob("*.npz"))), title="extremes")
    json.dumps(found, allow_nan=False)
    by_name = {Path(model["name"]).name: model for model in found["models"]}
    assert by_name["never.npz"]["metrics"]["nll"] == {"estimate": None, "infinite": True, "low": None, "high": None}
    assert "too few examples for a verdict (1);" in by_name["one.npz"]["verdict"]
    assert by_name["all.npz"]["confusions"] == []
    assert by_name["all.npz"]["classes_by_gap"][0]["count"] == 50


@pytest.mark.parametrize("bins", [7, 15, 997])
def test_every_number_of_bins_can_be_the_first(place: Path, bins: int) -> None:
    found = page_data([file_report(place / "test.npz", bins=bins, replicates=0)], title="bins")
    assert found["default_bins"] == bins
    assert bins in found["bin_choices"]
    (model,) = found["models"]
    assert all(len(model["fine"]["count"]) % choice == 0 for choice in found["bin_choices"])
    probs, labels = probs_and_labels(place, "test.npz")
    expected = oracle.calibration(probs, labels, bins)
    assert model["metrics"]["ece"]["estimate"] == pytest.approx(expected["ece"], abs=1e-6)
    counts = np.reshape(model["fine"]["count"], (bins, -1)).sum(1)
    assert counts.tolist() == expected["bin_count"].tolist()
    assert f"--bins {bins}" in model["command"]
