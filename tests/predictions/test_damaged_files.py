"""Truncated, damaged and mislabelled files are refused with their path, and no code in them runs."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from predictions.files import WRITERS, predictions, refusal
from singleshot.predictions import read_predictions

LOGITS, LABELS = predictions(20, 3, "logits")
TEXT = ("csv", "tsv", "jsonl")


class Bomb:
    """Exits the process when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return exec, ("raise SystemExit('unpickled')",)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    for which in ("logits", "labels", "class_names"):
        arrays: dict[str, Any] = {"logits": LOGITS, "labels": LABELS, "class_names": np.array(list("abc"))}
        arrays[which] = np.array([Bomb()] * 20, dtype=object)
        np.savez(tmp_path / "a.npz", allow_pickle=True, **arrays)
        assert f"array '{which}' holds Python objects, which are never unpickled" in refusal(tmp_path / "a.npz")


def npy_bytes(shape: str, dtype: str = "<f4", held: int = 16) -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\x00" * held


def test_oversized_headers_allocate_no_memory(tmp_path: Path) -> None:
    for shape in ("(1000000000000, 10)", "(4, 1000000000000)", "(-1, 10)", "(5, 1)"):
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("logits.npy", npy_bytes(shape))
            archive.writestr("labels.npy", npy_bytes("(4,)", "<i4"))
        assert "is truncated: shape (" in refusal(tmp_path / "a.npz")


def test_rows_of_millions_of_classes_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logits.npy", npy_bytes(f"(1, {2**22 + 1})", held=2**24 + 4))
        archive.writestr("labels.npy", npy_bytes("(1,)", "<i4", held=4))
    assert "has 4,194,305 classes; 1 to 4,194,304 are supported" in refusal(tmp_path / "a.npz")


def test_wrong_size_in_an_archive_is_detected(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", logits=LOGITS, labels=LABELS)
    data = (tmp_path / "a.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        size = archive.getinfo("logits.npy").file_size
    assert data.count(size.to_bytes(4, "little"))
    (tmp_path / "a.npz").write_bytes(data.replace(size.to_bytes(4, "little"), (size - 4).to_bytes(4, "little")))
    assert "is damaged" in refusal(tmp_path / "a.npz")


def test_paths_that_are_not_files_of_predictions(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "absent.npz")
    assert "has an unsupported format. Supported formats: .npz, .npy, .csv" in refusal(tmp_path / "a.bin")
    assert "loading it could run code. Save the arrays with numpy.savez" in refusal(tmp_path / "a.pkl")
    (tmp_path / "folder.npz").mkdir()
    assert "is a directory" in refusal(tmp_path / "folder.npz")
    for ending in ("npz", "npy", "csv", "csv.gz", "parquet", "safetensors"):
        (tmp_path / f"a.{ending}").write_bytes(b"")
        assert "is empty" in refusal(tmp_path / f"a.{ending}")


@settings(max_examples=120, deadline=None)
@given(name=st.sampled_from(list(WRITERS)), where=st.floats(0, 1), byte=st.none() | st.integers(0, 255))
def test_truncated_or_damaged_file_is_refused_or_read(
    name: str, where: float, byte: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, options = WRITERS[name](tmp_path_factory.mktemp("damaged"), LOGITS, LABELS, "logits")
    data = path.read_bytes()
    place = min(int(where * len(data)), len(data) - 1)
    path.write_bytes(data[:place] if byte is None else data[:place] + bytes([byte]) + data[place + 1 :])
    total, message = 0, ""
    try:
        total = sum(len(chunk.scores) for chunk in read_predictions(path, **options).chunks(6))
    except ValueError as error:
        message = str(error)
    # A truncated text file and a changed value can be valid. Otherwise the message contains the name of the file.
    assert path.name in message or (byte is None and name in TEXT and total <= 20) or (byte is not None and total)
