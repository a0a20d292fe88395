"""What is no file of ours says so."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from singleshot.export import read_facts


def test_files_that_are_not_ours_have_no_facts(tmp_path: Path) -> None:
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
        with pytest.raises(ValueError, match=rf"{path.name} is no file that singleshot has exported"):
            read_facts(path)
    with pytest.raises(ValueError, match=r"none\.onnx: there is no such file"):
        read_facts(tmp_path / "none.onnx")
