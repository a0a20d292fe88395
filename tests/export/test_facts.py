"""Metadata of files that singleshot did not write."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from singleshot.export import read_facts


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    import onnx

    (tmp_path / "text.onnx").write_text("not a model at all")
    (tmp_path / "empty.onnx").write_bytes(b"")
    onnx.save(onnx.ModelProto(ir_version=8), tmp_path / "other.onnx")
    with zipfile.ZipFile(tmp_path / "other.pt2", "w") as archive:
        archive.writestr("a/data.pkl", b"")
    with zipfile.ZipFile(tmp_path / "odd.pt2", "w") as archive:
        archive.writestr("a/extra/singleshot.json", "[1]")
    with zipfile.ZipFile(tmp_path / "deep.pt2", "w") as archive:
        archive.writestr("a/extra/singleshot.json", "[" * 100_000)
    for path in tmp_path.iterdir():
        with pytest.raises(ValueError, match=rf"{path.name} was not exported by singleshot"):
            read_facts(path)
    with pytest.raises(ValueError, match=r"none\.onnx: no such file"):
        read_facts(tmp_path / "none.onnx")
