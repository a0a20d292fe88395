"""Every mistake in a file is one message that names the file and the place, and nothing in it is ever run."""

from __future__ import annotations

import gzip
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st
from safetensors.numpy import save_file

from predictions.files import WRITERS, predictions
from singleshot.predictions import read_predictions

LOGITS, LABELS = predictions(20, 3, "logits")
PROBS, _ = predictions(20, 3, "probs")


def changed(scores: Any, row: int, values: list[float]) -> Any:
    other = scores.copy()
    other[row] = values
    return other


def refusal(path: Path, **told: Any) -> str:
    """What is said about a file, read in chunks of 6 rows; it names the file, or the one with the labels beside it."""
    with pytest.raises(ValueError, match=re.escape(str(path.parent))) as error:
        for _ in read_predictions(path, **told).chunks(6):
            pass
    return str(error.value)


@pytest.mark.parametrize("name", list(WRITERS))
def test_bad_values_are_named_with_their_row_in_the_whole_file(name: str, tmp_path: Path) -> None:
    # In a .csv the 18th row stands in line 19, under the headings.
    place = "line 19" if name.startswith("csv") else r"row 17 \(counted from 0\)"
    cases = [
        ("logits", changed(LOGITS, 17, [1, np.nan, 2]), LABELS, f"logits must be finite; {place} has nan for class 1"),
        ("logits", changed(LOGITS, 17, [1, 2, -np.inf]), LABELS, f"{place} has -inf for class 2"),
        ("probs", changed(PROBS, 17, [0.5, 0.25, 0.5]), LABELS, f"{place} has .* and sum 1.25"),
        ("probs", changed(PROBS, 17, [1.5, -0.25, -0.25]), LABELS, f"{place} has values from -0.25 to 1.5 and sum 1;"),
        ("probs", changed(PROBS, 17, [0.5, np.nan, 0.5]), LABELS, f"{place} has nan for class 1"),
    ]
    if not name.startswith("csv"):
        too_large, negative = LABELS.copy(), LABELS.copy()
        too_large[17], negative[17] = 3, -1
        cases.append(("logits", LOGITS, too_large, rf"lie in \[0, 3\).* in {place} is 3"))
        if name not in ("npy with kind", "parquet"):
            cases.append(("logits", LOGITS, negative, rf"lie in \[0, 3\).* in {place} is -1"))
    else:
        cases.append(("logits", LOGITS, changed(LABELS, 17, 3), f"'3' among the labels, first in {place}, is no class"))  # type: ignore[arg-type]
    for kind, scores, labels, said in cases:
        path, told = WRITERS[name](tmp_path, scores, labels, kind)
        assert re.search(said, refusal(path, **told)), refusal(path, **told)


@pytest.mark.parametrize("name", ["npz", "npy", "safetensors"])
def test_arrays_of_other_shapes_and_kinds(name: str, tmp_path: Path) -> None:
    for scores, labels, said in [
        (LOGITS, LABELS[1:], r"20 rows and .* 19"),
        (LOGITS.T.copy(), LABELS, r"3 rows and .* 20"),
        (LOGITS[:, 0].copy(), LABELS, r"must have shape \(N, C\), .* got \(20,\)"),
        (LOGITS.astype(int), LABELS, r"must be floating point, got (int64|I64)"),
        (LOGITS, LABELS[:, None], r"shape \(N,\).* \(20, 1\)"),
        (LOGITS, LABELS.astype(float), r"must be integers .* got (float64|F64)"),
        (LOGITS, LABELS > 0, r"must be integers .* got (bool|BOOL)"),
        (LOGITS[:0], LABELS[:0], "holds no examples"),
        (LOGITS[:, :0], LABELS, "has 0 classes"),
    ]:
        path, told = WRITERS[name](tmp_path, scores, labels, "logits")
        assert re.search(said, refusal(path, **told)), refusal(path, **told)


def test_missing_names_list_what_is_there(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", scores=LOGITS, labels=LABELS)
    assert "has no array 'logits' or 'probs'; there is scores, labels" in refusal(tmp_path / "a.npz")
    assert "does not tell logits from probabilities" in refusal(tmp_path / "a.npz", scores="scores")
    assert "has no array 'z'; there is scores, labels" in refusal(tmp_path / "a.npz", scores="z")
    np.savez(tmp_path / "a.npz", logits=LOGITS, y=LABELS)
    assert "has no array 'labels'; there is logits, y" in refusal(tmp_path / "a.npz")
    assert "has no array 'probs'; there is logits, y" in refusal(tmp_path / "a.npz", kind="probs")
    np.savez(tmp_path / "a.npz", logits=LOGITS, probs=PROBS, labels=LABELS)
    assert "has logits and probs; say which with --kind" in refusal(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", probabilities=PROBS, probs=PROBS, labels=LABELS)
    assert "say which with --scores" in refusal(tmp_path / "a.npz")
    save_file({"x": LOGITS}, tmp_path / "a.safetensors")
    assert "has no tensor 'logits' or 'probs'; there is x" in refusal(tmp_path / "a.safetensors")
    pq.write_table(pa.table({"x": [1.0], "label": [0]}), tmp_path / "a.parquet")
    assert "has no columns logit_CLASS or prob_CLASS, one per class; there is x, label" in refusal(
        tmp_path / "a.parquet"
    )
    with pytest.raises(ValueError, match="kind='scores' is unknown; choose one of logits, probs"):
        read_predictions(tmp_path / "a.npz", kind="scores")  # type: ignore[arg-type]


def test_npy_needs_labels_and_a_kind(tmp_path: Path) -> None:
    np.save(tmp_path / "logits.npy", LOGITS)
    np.save(tmp_path / "mine.npy", LOGITS)
    np.save(tmp_path / "logits_or_probs.npy", LOGITS)
    labels = str(tmp_path / "y.npy")
    assert "name the file of their labels" in refusal(tmp_path / "logits.npy")
    with pytest.raises(ValueError, match=r"y\.npy must be an \.npy file that is there"):
        read_predictions(tmp_path / "logits.npy", labels=labels)
    np.save(labels, LABELS)
    assert "does not tell logits from probabilities" in refusal(tmp_path / "mine.npy", labels=labels)
    assert "does not tell logits from probabilities" in refusal(tmp_path / "logits_or_probs.npy", labels=labels)
    assert "leave out --scores x" in refusal(tmp_path / "logits.npy", labels=labels, scores="x")


CSV = [
    ("", "is empty"),
    ("\n", "does not begin with a line of headings"),
    ("label,prob_a,prob_b\n", "holds no examples"),
    ("label,prob_a,prob_b\na,0.5,0.5\nb,1,0,0\n", "line 3: 4 cells under 3 headings"),
    ("label,prob_a,prob_b\n\na,0.5,0.5\n\nb,1\n", "line 5: 2 cells under 3 headings"),
    ("label,prob_a,prob_b\na,0.5,0.5\nb,half,0.5\n", "line 3, column 'prob_a': the cell is 'half', which is not a num"),
    ("label,prob_a,prob_b\na,0.5,0.5\nb,0.5,\n", "line 3, column 'prob_b': the cell is empty"),
    ("label,prob_a,prob_b,prob_a\na,0.5,0.5,0\n", "more than one column named prob_a"),
    ("label,labels,prob_a\na,a,1\n", "has label and labels; say which with --labels"),
    ("label,prob_a,logit_a\na,1,1\n", "has both logit_ and prob_ columns; say which"),
    ("label;prob_a;prob_b\na;0.5;0.5\n", "seems to be separated by ';'"),
    ("label,a,b\na,0.5,0.5\n", "has no columns logit_CLASS or prob_CLASS, one per class; there is label, a, b"),
    ("label,prob_a,prob_b\nc,0.5,0.5\nd,1,0\nc,1,0\n", "'c', 'd' among the labels, first in line 2, is no class"),
    ("label,prob_a,prob_b\n2,0.5,0.5\n", "'2' among the labels, first in line 2, is no class of the scores, which are"),
    ("label,prob_1,prob_2\n0,0.5,0.5\n", "could be the name of a class or its index"),
    ('label,prob_a,prob_b\n"a,0.5,0.5\n', "damaged or incomplete"),
    ('label,prob_a,prob_b\na,0.5,0.5\n"b\n",1,0,0\n', "line 4: 4 cells"),
]


@pytest.mark.parametrize(("text", "said"), CSV)
def test_text_with_mistakes(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text, newline="")
    assert said in refusal(tmp_path / "a.csv")


def test_text_that_is_none_and_lines_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_bytes(b"label,prob_\xff\n")
    assert "damaged or incomplete" in refusal(tmp_path / "a.csv")
    (tmp_path / "a.csv.gz").write_bytes(b"label,prob_a\n")
    assert "damaged or incomplete" in refusal(tmp_path / "a.csv.gz")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"label,prob_a\n" + b"a,1.0\n" * 100)[:-20])
    assert "damaged or incomplete" in refusal(tmp_path / "a.csv.gz")
    monkeypatch.setattr("singleshot.predictions.text_files.LONGEST_LINE", 1000)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x" * 10**6))
    assert "has a line of 1,000 characters or more" in refusal(tmp_path / "a.csv.gz")


def test_parquet_with_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for columns, said in [
        ({"label": [0, None], "prob_a": [1.0, 1.0]}, "no label in row 1"),
        ({"label": [0.5, 1.0], "prob_a": [1.0, 1.0]}, "must hold integers or class names, it holds double"),
        ({"label": [0, 0], "prob_a": [1.0, None]}, "row 1 (counted from 0) has nan for class 0"),
        ({"label": [0, 0], "prob_a": ["1", "1"]}, "column 'prob_a' must hold numbers, it holds string"),
        ({"label": [0, 0], "probs": [[1.0], [0.5, 0.5]]}, "row 1 (counted from 0) has 2 scores, row 0 has 1"),
        ({"label": [0, 0], "probs": [[1.0], None]}, "row 1 (counted from 0) has 0 scores, row 0 has 1"),
        ({"label": [0, 0], "probs": [[], []]}, "row 0 of column 'probs' is empty"),
        ({"label": [0, 0], "probs": [["a"], ["b"]]}, "must hold numbers"),
        ({"label": ["b", "a"], "prob_a": [1.0, 1.0]}, "'b' among the labels, first in row 0 (counted from 0), is no"),
    ]:
        pq.write_table(pa.table(columns), path)
        assert said in refusal(path), refusal(path)
    pq.write_table(pa.table({"label": pa.array([], pa.int64()), "prob_a": pa.array([], pa.float64())}), path)
    assert "holds no examples" in refusal(path)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert "pip install 'singleshot[parquet]'" in refusal(tmp_path / "a.parquet")


class Bomb:
    """Goes off when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return exec, ("raise SystemExit('unpickled')",)


@pytest.mark.parametrize("which", ["logits", "labels", "class_names"])
def test_objects_are_never_unpickled(which: str, tmp_path: Path) -> None:
    arrays: dict[str, Any] = {"logits": LOGITS, "labels": LABELS, "class_names": np.array(list("abc"))}
    arrays[which] = np.array([Bomb()] * 20, dtype=object)
    np.savez(tmp_path / "a.npz", allow_pickle=True, **arrays)
    assert f"array '{which}' holds Python objects, which are never unpickled" in refusal(tmp_path / "a.npz")


def test_class_names_must_fit(tmp_path: Path) -> None:
    for names, said in [
        (np.array(["a", "b"]), "has 2 class names for scores of 3 classes"),
        (np.array(["a", "b", "a"]), "has classes of the same name: a"),
        (np.ones(3), "must be a list of names, got float64"),
    ]:
        np.savez(tmp_path / "a.npz", logits=LOGITS, labels=LABELS, class_names=names)
        assert said in refusal(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", logits=LOGITS, labels=np.array(["a"] * 20))
    assert "labels are names ('a' in row 0 (counted from 0)), but the classes have none" in refusal(tmp_path / "a.npz")
    save_file({"logits": LOGITS, "labels": LABELS}, tmp_path / "a.safetensors", {"class_names": "a,b,c"})
    assert "must be a JSON list, got 'a,b,c'" in refusal(tmp_path / "a.safetensors")


def npy_bytes(shape: str, dtype: str = "<f4", held: int = 16) -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\x00" * held


@pytest.mark.parametrize("shape", ["(1000000000000, 10)", "(4, 1000000000000)", "(-1, 10)", "(5, 1)"])
def test_a_header_that_promises_more_than_there_is_gets_no_memory(shape: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("logits.npy", npy_bytes(shape))
        archive.writestr("labels.npy", npy_bytes("(4,)", "<i4"))
    assert "is cut off: its header promises shape" in refusal(tmp_path / "a.npz")


def test_rows_of_millions_of_classes_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logits.npy", npy_bytes(f"(1, {2**22 + 1})", held=2**24 + 4))
        archive.writestr("labels.npy", npy_bytes("(1,)", "<i4"))
    assert "has 4,194,305 classes; 1 to 4,194,304 can be read" in refusal(tmp_path / "a.npz")


def test_a_size_that_an_archive_lies_about_is_found_out(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", logits=LOGITS, labels=LABELS)
    data = (tmp_path / "a.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        size = archive.getinfo("logits.npy").file_size
    assert data.count(size.to_bytes(4, "little"))
    (tmp_path / "a.npz").write_bytes(data.replace(size.to_bytes(4, "little"), (size - 4).to_bytes(4, "little")))
    assert "is damaged or incomplete" in refusal(tmp_path / "a.npz")


def test_what_is_no_file_of_predictions(tmp_path: Path) -> None:
    assert "there is no such file" in refusal(tmp_path / "absent.npz")
    assert "is of no known format; predictions are read from .npz, .npy, .csv" in refusal(tmp_path / "a.pkl")
    (tmp_path / "folder.npz").mkdir()
    assert "is a folder" in refusal(tmp_path / "folder.npz")
    for ending in ("npz", "npy", "csv", "csv.gz", "parquet", "safetensors"):
        (tmp_path / f"a.{ending}").write_bytes(b"")
        assert "is empty" in refusal(tmp_path / f"a.{ending}")


@settings(max_examples=120, deadline=None)
@given(name=st.sampled_from(list(WRITERS)), where=st.floats(0, 1), byte=st.none() | st.integers(0, 255))
def test_a_file_cut_off_or_damaged_anywhere_is_refused_or_read_never_a_crash(
    name: str, where: float, byte: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, told = WRITERS[name](tmp_path_factory.mktemp("damaged"), LOGITS, LABELS, "logits")
    data = path.read_bytes()
    place = min(int(where * len(data)), len(data) - 1)
    path.write_bytes(data[:place] if byte is None else data[:place] + bytes([byte]) + data[place + 1 :])
    total, said = 0, ""
    try:
        total = sum(len(chunk.scores) for chunk in read_predictions(path, **told).chunks(6))
    except ValueError as error:
        said = str(error)
    # Text can lose its last lines, and a changed value is a value. Otherwise the file is named.
    assert path.name in said or (byte is None and name == "csv" and total <= 20) or (byte is not None and total)
