"""Faults in .csv and .parquet files are reported with the line or row, and the column."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from predictions.files import refusal
from singleshot.predictions import read_predictions

CSV = [
    ("", "is empty"),
    ("\n", "has no headings in its first line"),
    ("label,prob_a,prob_b\n", "contains no examples"),
    ("label,prob_a,prob_b\na,0.5,0.5\nb,1,0,0\n", "line 3: 4 cells, but 3 headings"),
    ("label,prob_a,prob_b\n\na,0.5,0.5\n\nb,1\n", "line 5: 2 cells, but 3 headings"),
    ("label,prob_a,prob_b\na,0.5,0.5\nb,half,0.5\n", "line 3, column 'prob_a': 'half' is not a number"),
    ("label,prob_a,prob_b\na,0.5,0.5\nb,0.5,\n", "line 3, column 'prob_b': the cell is empty"),
    ("label,prob_a,prob_b,prob_a\na,0.5,0.5,0\n", "more than one column named prob_a"),
    ("label,labels,prob_a,prob_b\na,a,1,0\n", "has labels and label; set --labels"),
    ("label,prob_a,logit_a\na,1,1\n", "has both logit_ and prob_ columns; set --kind"),
    ("label,a,b\na,0.5,0.5\n", "has no columns logit_CLASS or prob_CLASS, one per class; found label, a, b"),
    (
        "label,prob_a,prob_b\nc,0.5,0.5\nd,1,0\nc,1,0\n",
        "unknown labels 'c', 'd', first in line 2; the classes are a, b",
    ),
    ("label,prob_a,prob_b\n3,0.5,0.5\n", "unknown label '3' in line 2; the classes are a, b"),
    ("label,prob_a,prob_b\n1,0.5,0.5\n2,0.5,0.5\n", "line 3 is 2. They lie in 1 … 2: if they are counted from 1, sub"),
    ("label,prob_1,prob_2\n0,0.5,0.5\n", "could be a class name or an index"),
    ('label,prob_a,prob_b\n"a,0.5,0.5\n', "damaged, incomplete or encrypted"),
    ('label,prob_a,prob_b\na,0.5,0.5\n"b\n",1,0,0\n', "line 4: 4 cells"),
]


def test_invalid_csv(tmp_path: Path) -> None:
    for text, message in CSV:
        (tmp_path / "a.csv").write_text(text, newline="")
        assert message in refusal(tmp_path / "a.csv"), text


def test_damaged_text_and_long_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_bytes(b"label,prob_\xff\0\n")  # not text of another encoding
    assert "damaged, incomplete or encrypted" in refusal(tmp_path / "a.csv")
    (tmp_path / "a.csv.gz").write_bytes(b"label,prob_a\n")
    assert "damaged, incomplete or encrypted" in refusal(tmp_path / "a.csv.gz")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"label,prob_a\n" + b"a,1.0\n" * 100)[:-20])
    assert "damaged, incomplete or encrypted" in refusal(tmp_path / "a.csv.gz")
    monkeypatch.setattr("singleshot.predictions.csv_files.MAX_LINE", 1000)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x" * 10**6))
    assert "has a line of 1,000 characters or more" in refusal(tmp_path / "a.csv.gz")


PAIR = {"prob_a": [0.5, 0.5], "prob_b": [0.5, 0.5]}


def test_invalid_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for columns, message in [
        ({"label": [0, None], **PAIR}, "no label in row 1"),
        (
            {"label": [0.5, 1.0], **PAIR},
            "labels must be integers or class names; the label in row 0 (counted from 0) is 0.5",
        ),
        ({"label": [0, 0], "prob_a": [0.5, None], "prob_b": [0.5, 1.0]}, "row 1 (counted from 0) has nan for class 0"),
        ({"label": [0, 0], "prob_a": ["1", "1"]}, "column 'prob_a' must hold numbers, got string"),
        ({"label": [0, 0], "probs": [[1.0], [0.5, 0.5]]}, "row 1 (counted from 0) has 2 scores, row 0 has 1"),
        ({"label": [0, 0], "probs": [[1.0], None]}, "row 1 (counted from 0) has 0 scores, row 0 has 1"),
        ({"label": [0, 0], "probs": [[], []]}, "row 0 of column 'probs' is empty"),
        ({"label": [0, 0], "probs": [["a"], ["b"]]}, "must hold numbers"),
        ({"label": ["c", "a"], **PAIR}, "unknown label 'c' in row 0 (counted from 0)"),
    ]:
        pq.write_table(pa.table(columns), path)
        assert message in refusal(path), refusal(path)
    pq.write_table(pa.table({"label": pa.array([], pa.int64()), "prob_a": pa.array([], pa.float64())}), path)
    assert "contains no examples" in refusal(path)


def test_error_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert "pip install 'singleshot[parquet]'" in refusal(tmp_path / "a.parquet")


@pytest.mark.parametrize("labels", [("cat", "dog", "eel"), (0, 1, 2)])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_column_that_no_label_uses_is_not_taken_for_a_class(
    labels: tuple[str | int, ...], ending: str, tmp_path: Path
) -> None:
    rows = [
        {"cat": 2.5, "dog": 0.5, "eel": 0.1, "label": label, "age": age}
        for label, age in zip(labels, (34, 7, 50), strict=True)
    ]
    path = tmp_path / f"a.{ending}"
    if ending == "csv":
        path.write_text("\n".join(",".join(map(str, row)) for row in [[*rows[0]], *(row.values() for row in rows)]))
    elif ending == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    message = refusal(path, kind="logits")
    assert "no label is age, so it is unclear whether this column is a class" in message
    assert "--scores cat,dog,eel (scores= in Python)" in message
    assert read_predictions(path, kind="logits", scores="cat,dog,eel").load().labels.tolist() == [0, 1, 2]
    assert read_predictions(path, kind="logits", scores="cat,dog,eel,age").load().scores.shape == (3, 4)


@pytest.mark.parametrize("text", ["1.0,0.0,0\n0.25,0.75,1\n", "1,0;0,0;0\n0,25;0,75;1\n"])
def test_a_saturated_first_row_is_not_taken_for_headings(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    found = read_predictions(tmp_path / "a.csv", kind="probs").load()
    assert (found.scores.tolist(), found.labels.tolist()) == ([[1.0, 0.0], [0.25, 0.75]], [0, 1])
