"""Predictions written in every format, by widely used libraries."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from pyarrow.feather import write_feather
from safetensors.numpy import save_file

from singleshot.predictions import read_predictions

Arrays = NDArray[Any]
Writer = Callable[[Path, Arrays, Arrays, str], tuple[Path, dict[str, Any]]]
"""Writes scores and labels of a kind to a folder; returns the file and the options for read_predictions."""

PREFIX = {"logits": "logit_", "probs": "prob_"}


def npz(folder: Path, scores: Arrays, labels: Arrays, kind: str) -> tuple[Path, dict[str, Any]]:
    arrays: dict[str, Any] = {kind: scores, "labels": labels}
    np.savez(folder / "p.npz", **arrays)
    return folder / "p.npz", {}


def npz_deflated(folder: Path, scores: Arrays, labels: Arrays, kind: str) -> tuple[Path, dict[str, Any]]:
    arrays: dict[str, Any] = {kind: scores, "labels": labels}
    np.savez_compressed(folder / "p.npz", **arrays)
    return folder / "p.npz", {}


def npz_by_columns(folder: Path, scores: Arrays, labels: Arrays, kind: str) -> tuple[Path, dict[str, Any]]:
    return npz(folder, np.asfortranarray(scores), labels, kind)


def npy(folder: Path, scores: Arrays, labels: Arrays, kind: str) -> tuple[Path, dict[str, Any]]:
    np.save(folder / f"{kind}.npy", scores)
    np.save(folder / "y.npy", labels)
    return folder / f"{kind}.npy", {"labels": str(folder / "y.npy")}


def npy_with_kind(folder: Path, scores: Arrays, labels: Arrays, kind: str) -> tuple[Path, dict[str, Any]]:
    np.save(folder / "scores.npy", scores.astype(scores.dtype.newbyteorder(">")))
    np.save(folder / "y.npy", labels.astype(np.uint16))
    return folder / "scores.npy", {"labels": str(folder / "y.npy"), "kind": kind}


def safetensors(folder: Path, scores: Arrays, labels: Arrays, kind: str) -> tuple[Path, dict[str, Any]]:
    save_file({kind: np.ascontiguousarray(scores), "labels": labels}, folder / "p.safetensors")
    return folder / "p.safetensors", {}


def csv_file(folder: Path, scores: Arrays, labels: Arrays, kind: str) -> tuple[Path, dict[str, Any]]:
    (folder / "p.csv").write_text(csv_text(scores, labels, kind), encoding="utf-8")
    return folder / "p.csv", {}


def csv_gzipped(folder: Path, scores: Arrays, labels: Arrays, kind: str) -> tuple[Path, dict[str, Any]]:
    (folder / "p.csv.gz").write_bytes(gzip.compress(csv_text(scores, labels, kind).encode()))
    return folder / "p.csv.gz", {}


def csv_zstd(folder: Path, scores: Arrays, labels: Arrays, kind: str) -> tuple[Path, dict[str, Any]]:
    with pa.output_stream(folder / "p.csv.zst", compression="zstd") as file:
        file.write(csv_text(scores, labels, kind).encode())
    return folder / "p.csv.zst", {}


def tsv(folder: Path, scores: Arrays, labels: Arrays, kind: str) -> tuple[Path, dict[str, Any]]:
    rows = csv.reader(csv_text(scores, labels, kind).splitlines())
    (folder / "p.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return folder / "p.tsv", {}


def jsonl(folder: Path, scores: Arrays, labels: Arrays, kind: str) -> tuple[Path, dict[str, Any]]:
    rows = zip(scores.tolist(), labels.tolist(), strict=True)
    lines = [json.dumps({kind: row, "label": label}) + "\n" for row, label in rows]
    (folder / "p.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder / "p.jsonl", {}


def csv_text(scores: Arrays, labels: Arrays, kind: str, names: list[str] | None = None) -> str:
    """Return a table with score columns on both sides of the label, and an unrelated column."""
    names = [str(index) for index in range(scores.shape[1])] if names is None else names
    headings = [PREFIX[kind] + name for name in names]
    rows = [[headings[0], "label", "image", *headings[1:]]]
    for row, label in zip(scores.tolist(), labels.tolist(), strict=True):
        rows.append([repr(row[0]), str(label), "a, b.png", *map(repr, row[1:])])
    lines: list[str] = []

    class Lines:
        def write(self, line: str) -> None:
            lines.append(line)

    csv.writer(Lines()).writerows(rows)
    return "".join(lines)


def parquet(folder: Path, scores: Arrays, labels: Arrays, kind: str) -> tuple[Path, dict[str, Any]]:
    pq.write_table(_table(scores, labels, kind), folder / "p.parquet", row_group_size=7)
    return folder / "p.parquet", {}


def feather(folder: Path, scores: Arrays, labels: Arrays, kind: str) -> tuple[Path, dict[str, Any]]:
    write_feather(_table(scores, labels, kind), folder / "p.feather", chunksize=7)
    return folder / "p.feather", {}


def _table(scores: Arrays, labels: Arrays, kind: str) -> pa.Table:
    columns = {f"{PREFIX[kind]}{index}": column for index, column in enumerate(np.ascontiguousarray(scores.T))}
    return pa.table({**columns, "label": labels})


def parquet_of_lists(folder: Path, scores: Arrays, labels: Arrays, kind: str) -> tuple[Path, dict[str, Any]]:
    lists = pa.array(scores.tolist(), type=pa.list_(pa.from_numpy_dtype(scores.dtype)))
    pq.write_table(pa.table({kind: lists, "labels": labels}), folder / "p.parquet", row_group_size=7)
    return folder / "p.parquet", {}


WRITERS: dict[str, Writer] = {
    "npz": npz,
    "npz deflated": npz_deflated,
    "npz by columns": npz_by_columns,
    "npy": npy,
    "npy with kind": npy_with_kind,
    "safetensors": safetensors,
    "csv": csv_file,
    "csv.gz": csv_gzipped,
    "csv.zst": csv_zstd,
    "tsv": tsv,
    "jsonl": jsonl,
    "parquet": parquet,
    "parquet of lists": parquet_of_lists,
    "feather": feather,
}


def predictions(rows: int, classes: int, kind: str, dtype: Any = np.float32, seed: int = 0) -> tuple[Arrays, Arrays]:
    """Return random scores of a kind, and labels."""
    random = np.random.default_rng(seed)
    scores = random.normal(size=(rows, classes)) * 3
    if kind == "probs":
        scores = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return scores.astype(dtype), random.integers(0, classes, rows)


def metadata(names: list[str]) -> dict[str, str]:
    """Return class names as the metadata of a safetensors file."""
    return {"class_names": json.dumps(names)}


def refusal(path: Path, **options: Any) -> str:
    """Read a file in chunks of 6 rows and return the error message, which must contain the path of the folder."""
    with pytest.raises(ValueError, match=re.escape(str(path.parent))) as error:
        for _ in read_predictions(path, **options).chunks(6):
            pass
    return str(error.value)
