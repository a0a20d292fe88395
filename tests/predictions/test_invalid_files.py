"""An invalid file raises one error with the path and the position of the fault."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from predictions.files import WRITERS, predictions, refusal
from singleshot.predictions import read_predictions

LOGITS, LABELS = predictions(20, 3, "logits")
PROBS, _ = predictions(20, 3, "probs")


def changed(scores: Any, row: int, values: list[float]) -> Any:
    other = scores.copy()
    other[row] = values
    return other


@pytest.mark.parametrize("name", list(WRITERS))
def test_invalid_values_are_reported_with_their_row(name: str, tmp_path: Path) -> None:
    # The headings of a table are line 1, so row 17 is line 19.
    places = {"csv": "line 19", "tsv": "line 19", "jsonl": "line 18"}
    place = places.get(re.split("[ .]", name)[0], r"row 17 \(counted from 0\)")
    cases = [
        (
            "logits",
            changed(LOGITS, 17, [1, np.nan, 2]),
            LABELS,
            f"logits must be finite .*; {place} has nan for class 1",
        ),
        ("logits", changed(LOGITS, 17, [1, 2, np.inf]), LABELS, f"{place} has inf for class 2"),
        ("logits", changed(LOGITS, 17, [-np.inf] * 3), LABELS, f"{place} has -inf for class 0"),
        ("probs", changed(PROBS, 17, [0.5, 0.25, 0.5]), LABELS, f"{place} has .* and sum 1.25"),
        ("probs", changed(PROBS, 17, [1.5, -0.25, -0.25]), LABELS, f"{place} has values from -0.25 to 1.5 and sum 1;"),
        ("probs", changed(PROBS, 17, [0.5, np.nan, 0.5]), LABELS, f"{place} has nan for class 1"),
    ]
    if not place.startswith("line"):
        too_large, negative = LABELS.copy(), LABELS.copy()
        too_large[17], negative[17] = 3, -1
        cases.append(("logits", LOGITS, too_large, rf"lie in \[0, 3\).* in {place} is 3"))
        if name not in ("npy with kind", "parquet"):
            cases.append(("logits", LOGITS, negative, rf"lie in \[0, 3\).* in {place} is -1"))
    else:
        message = f"label in {place} is 3" if name == "jsonl" else f"unknown label '3' in {place}"
        cases.append(("logits", LOGITS, changed(LABELS, 17, 3), message))  # type: ignore[arg-type]
    for kind, scores, labels, message in cases:
        path, options = WRITERS[name](tmp_path, scores, labels, kind)
        assert re.search(message, refusal(path, **options)), refusal(path, **options)


@pytest.mark.parametrize("name", ["npz", "npy", "safetensors"])
def test_invalid_arrays(name: str, tmp_path: Path) -> None:
    for scores, labels, message in [
        (LOGITS, LABELS[1:], r"20 rows, but .* 19"),
        (LOGITS.T.copy(), LABELS, r"3 rows, but .* 20"),
        (LOGITS[:, 0].copy(), LABELS, r"one score per example, which is for two classes, but its labels are 0, 1, 2"),
        (LOGITS[None], LABELS, r"must have shape \(N, C\), .* got \(1, 20, 3\)"),
        (LOGITS.astype(int), LABELS, r"must be floating point, got int64"),
        (LOGITS, np.stack([LABELS, LABELS], 1), r"shape \(N,\).* \(20, 2\)"),
        (LOGITS, LABELS + 0.5, r"must be integers or class names; the label in row 0 .* is [0-9].5"),
        (LOGITS.astype(int), np.stack([LABELS, LABELS], 1), r"must be floating point.*Also: .*shape \(N,\)"),
        (LOGITS[:0], LABELS[:0], "contains no examples"),
        (LOGITS[:, :0], LABELS, "has 0 classes"),
    ]:
        path, options = WRITERS[name](tmp_path, scores, labels, "logits")
        assert re.search(message, refusal(path, **options)), refusal(path, **options)


def test_missing_names_list_those_found(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", scores=LOGITS, labels=LABELS)
    assert "has no 'logits' or 'probs'; found scores, labels" in refusal(tmp_path / "a.npz")
    assert "unclear whether 'scores' holds logits or probabilities" in refusal(tmp_path / "a.npz", scores="scores")
    assert "has no 'z'; found scores, labels" in refusal(tmp_path / "a.npz", scores="z")
    np.savez(tmp_path / "a.npz", logits=LOGITS, z=LABELS)
    assert "has no 'labels'; found logits, z" in refusal(tmp_path / "a.npz")
    assert "has no 'probs'; found logits, z" in refusal(tmp_path / "a.npz", kind="probs")
    np.savez(tmp_path / "a.npz", outputs=LOGITS, z=LABELS)  # everything at once
    assert re.search(
        r"has no 'labels'; .*--labels NAME.* Also: .* has no 'logits' or 'probs'; .*--scores NAME --kind logits.*"
        r"contains outputs float32 \(20, 3\), z int64 \(20,\)",
        refusal(tmp_path / "a.npz"),
    )
    np.savez(tmp_path / "a.npz", logits=LOGITS, probs=PROBS, labels=LABELS)
    assert "has logits and probs; set --kind" in refusal(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", probabilities=PROBS, probs=PROBS, labels=LABELS)
    assert "set --scores" in refusal(tmp_path / "a.npz")
    save_file({"x": LOGITS}, tmp_path / "a.safetensors")
    assert "has no 'logits' or 'probs'; found x" in refusal(tmp_path / "a.safetensors")
    pq.write_table(pa.table({"x": [1.0], "label": [0]}), tmp_path / "a.parquet")
    assert "has no columns logit_CLASS or prob_CLASS, one per class; found x, label" in refusal(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"kind.*'scores'.*choose one of logits, probs"):
        read_predictions(tmp_path / "a.npz", kind="scores")  # type: ignore[arg-type]


def test_all_faults_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    probs, labels = PROBS.copy(), LABELS.copy()
    probs[3] *= 1.1
    probs[12] *= 1.5
    labels[5] = 7
    np.savez(tmp_path / "a.npz", probs=probs, labels=labels)
    assert re.search(
        r"labels must lie in \[0, 3\).* row 5 .* is 7\. Also: .*row 3 .* sum 1.1; 2 of 20 rows are invalid; the worst: "
        r"row 12 .* sum 1.5; --normalize",
        refusal(tmp_path / "a.npz"),
    )
    labels[5] = 0
    np.savez(tmp_path / "a.npz", probs=probs, labels=labels)
    found = read_predictions(tmp_path / "a.npz", normalize=True).load().scores
    np.testing.assert_allclose(found, PROBS / PROBS.sum(1, keepdims=True, dtype=np.float64), rtol=1e-6)
    probs[4] = 0
    np.savez(tmp_path / "a.npz", probs=probs, labels=labels)
    assert "row 4 (counted from 0) has nan for class 0" in refusal(tmp_path / "a.npz", normalize=True)
    np.savez(tmp_path / "a.npz", logits=LOGITS, labels=labels)
    assert "only probabilities can be normalized" in refusal(tmp_path / "a.npz", normalize=True)


def test_columns_that_are_not_scores_are_listed_first(tmp_path: Path) -> None:
    headings = [f"prob_{index}" for index in range(50)]
    (tmp_path / "a.csv").write_text(",".join([*headings, "species", "image"]) + "\n" + ",".join(["0"] * 52) + "\n")
    assert "has no 'labels'; found species, image, prob_0, prob_1" in refusal(tmp_path / "a.csv")


def test_probabilities_that_rounding_explains(tmp_path: Path) -> None:
    thirds = [[0.33, 0.33, 0.33], [0.5, 0.25, 0.25]]
    np.savez(tmp_path / "a.npz", probs=np.array(thirds), labels=[0, 1])
    np.testing.assert_array_equal(read_predictions(tmp_path / "a.npz").load().scores, thirds)
    np.savez(tmp_path / "a.npz", probs=np.array([[0.33, 0.33, 0.32], [0.5, 0.25, 0.25]]), labels=[0, 1])
    assert "row 0 (counted from 0) has values from 0.32 to 0.33 and sum 0.98; --normalize" in refusal(
        tmp_path / "a.npz"
    )


def test_unsupported_tensor_type(tmp_path: Path) -> None:
    save_file({"logits": LOGITS, "labels": LABELS.astype(np.uint16)}, tmp_path / "a.safetensors")
    assert "tensor 'labels' has the unsupported type U16" in refusal(tmp_path / "a.safetensors")


def test_npy_needs_labels_and_a_kind(tmp_path: Path) -> None:
    np.save(tmp_path / "logits.npy", LOGITS)
    np.save(tmp_path / "mine.npy", LOGITS)
    np.save(tmp_path / "logits_or_probs.npy", LOGITS)
    labels = str(tmp_path / "y.npy")
    assert "give the file of labels" in refusal(tmp_path / "logits.npy")
    with pytest.raises(ValueError, match=r"y\.npy must be an existing \.npy file"):
        read_predictions(tmp_path / "logits.npy", labels=labels)
    np.save(labels, LABELS)
    for name in ("mine.npy", "logits_or_probs.npy"):
        assert "unclear from its name whether it holds" in refusal(tmp_path / name, labels=labels)
    assert "remove --scores x" in refusal(tmp_path / "logits.npy", labels=labels, scores="x")


def test_class_names_must_fit(tmp_path: Path) -> None:
    for names, message in [
        (np.array(["a", "b"]), "has 2 class names for 3 classes"),
        (np.array(["a", "b", "a"]), "has more than one class named a"),
        (np.ones(3), "must be a list of names, got float64"),
    ]:
        np.savez(tmp_path / "a.npz", logits=LOGITS, labels=LABELS, class_names=names)
        assert message in refusal(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", logits=LOGITS, labels=np.array(["a"] * 20))
    assert "labels are names ('a' in row 0 (counted from 0)), but the classes have no names" in refusal(
        tmp_path / "a.npz"
    )
    save_file({"logits": LOGITS, "labels": LABELS}, tmp_path / "a.safetensors", {"class_names": "a,b,c"})
    assert "must be a JSON list of names, got 'a,b,c'" in refusal(tmp_path / "a.safetensors")


def test_an_integer_label_out_of_range_is_no_name(tmp_path: Path) -> None:
    rows = [{"logits": [0.5, 0.1, 0.2], "label": label} for label in (0, 1, 7)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    expected = "labels must lie in [0, 3), the classes of the scores; the label in line 3 is 7"
    assert refusal(tmp_path / "a.jsonl").endswith(expected)
    (tmp_path / "a.jsonl").write_text(json.dumps({"logits": [0.5, 0.1], "label": "cat"}))
    assert "labels are names ('cat' in line 1)" in refusal(tmp_path / "a.jsonl")


def test_faults_of_a_single_score_have_a_row(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", probs=np.array([0.5, 0.1, 1.5]), labels=[0, 1, 1])
    assert re.search(r"row 2 .* has 1.5; .*--kind logits", refusal(tmp_path / "a.npz"))
    np.savez(tmp_path / "a.npz", logits=np.array([0.5, np.nan]), labels=[0, 1])
    assert "row 1 (counted from 0) has nan for class 1" in refusal(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", confidence=np.array([0.5, 1.2]), predicted=[0, 1], labels=[0, 1])
    assert "a confidence or probability must lie in [0, 1]; row 1 (counted from 0) has 1.2" in refusal(
        tmp_path / "a.npz"
    )
    np.savez(tmp_path / "a.npz", probs=np.array([0.5, 0.2]), labels=["a", "b"], class_names=["a", "b"])
    assert read_predictions(tmp_path / "a.npz").positive == "b"
    cases: list[tuple[Any, str]] = [
        (["a", "c"], "unknown label c; the classes are a, b"),
        ([0, 5], "unknown label 5"),
    ]
    for labels, message in cases:
        np.savez(tmp_path / "a.npz", probs=np.array([0.5, 0.2]), labels=labels, class_names=["a", "b"])
        assert message in refusal(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", probs=np.array([0.5, 0.2]), labels=["a", "a"])
    assert "every label is 'a'; set --positive" in refusal(tmp_path / "a.npz")
    assert "the positive class 'x' is not among the labels a" in refusal(tmp_path / "a.npz", positive="x")
    np.savez(tmp_path / "a.npz", confidence=np.array([0.5, 0.2]), correct=["yes", "maybe"])
    assert "correctness must be 0 or 1, or true or false; found maybe" in refusal(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", logits=LOGITS, labels=LABELS)
    assert "--positive is for files with a single score" in refusal(tmp_path / "a.npz", positive="x")
    assert "has no confidence and predicted class" in refusal(tmp_path / "a.npz", kind="confidence")


def test_values_above_1_can_be_logits(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,prob_a,prob_b\na,3.5,0.5\nb,0.1,2\n")
    message = refusal(tmp_path / "a.csv")
    assert "--normalize" in message
    assert "if these are logits, rename them or set --scores NAME --kind logits" in message
    found = read_predictions(tmp_path / "a.csv", scores="prob_", kind="logits")
    assert (found.kind, found.load().labels.tolist()) == ("logits", [0, 1])
    (tmp_path / "a.csv").write_text("label,prob_a,prob_b\na,0.5,0.2\n")
    assert "logits" not in refusal(tmp_path / "a.csv")


def test_json_lines_of_python_have_infinite_logits(tmp_path: Path) -> None:
    scores = [[0.0, -math.inf], [1.0, 2.0]]
    lines = [json.dumps({"label": 0, "logits": row, "note": math.nan}) for row in scores]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert read_predictions(tmp_path / "a.jsonl").load().scores.tolist() == scores


def test_invalid_json_lines(tmp_path: Path) -> None:
    for text, message in [
        ("[1, 2]\n", "line 1: not a JSON object"),
        ('{"label": 0, "probs": [0.5, 0.5]}\n{"label": 0', "line 2: not a JSON object"),
        (
            '{"label": 0, "probs": [0.5, 0.5]}\n{"label": 0, "probs": [1.0]}\n',
            "line 2: 1 scores, but the first line has 2",
        ),
        ('{"label": 0, "probs": [0.5, 0.5]}\n{"label": 0, "probs": ["a", 1]}\n', "line 2: a score is not a number"),
        (
            '{"label": 0, "probs": [0.5, 0.5]}\n\n{"probs": [0.5, 0.5]}\n',
            "line 3: no 'label', which the first line has",
        ),
        ('{"label": 0, "prob_a": 0.5, "prob_b": 0.5}\n{"label": 0, "prob_a": 1}\n', "line 2: no 'prob_b', which"),
        ('{"label": null, "prob_a": 0.5, "prob_b": 0.5}\n', "line 1: 'label' must be an integer or a class name"),
        ('{"label": 0, "x": [0.5, 0.5]}\n', "has no 'logits' or 'probs'; found x"),
        ("\n\n", "contains no examples"),
        ("[" * 100_000, "not a JSON object"),
        ("[" * 100_000 + "NaN", "not a JSON object"),
        ("[NaN]\n", "not a JSON object"),
        ('{"label": 0, "logits": [0.5, NaN]}\n', "line 1 has nan for class 1"),
        ('{"label": 0, "logits": [0.5, -Infinity}\n', "line 1: not a JSON object"),
    ]:
        (tmp_path / "a.jsonl").write_text(text)
        assert message in refusal(tmp_path / "a.jsonl"), refusal(tmp_path / "a.jsonl")
    (tmp_path / "a.feather").write_bytes(b"no feather")
    assert "is damaged or not a feather file" in refusal(tmp_path / "a.feather")
    (tmp_path / "a.csv.zst").write_bytes(b"not compressed")
    assert "damaged" in refusal(tmp_path / "a.csv.zst")


def test_control_characters_of_headings_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,logit_a,logit_\x1fb\n0,,x\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"the cell is empty; columns without numbers: logit_a, logit_\\x1fb") as found:
        read_predictions(tmp_path / "a.csv").load()
    assert str(found.value).isprintable()


@pytest.mark.parametrize(
    "headings", ["logit_0,logit_1,label,label\0", "logit_0,logit_1,prob_0,prob_1\0,label", "logits,logits\0,label"]
)
def test_headings_that_differ_in_control_characters_are_escaped(headings: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{headings}\n" + ",".join("0" * len(headings.split(","))) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        read_predictions(path)
    assert str(caught.value).isprintable()
