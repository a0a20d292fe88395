"""The metadata of an exported file, as JSON values that can be read without running the file."""

from __future__ import annotations

import json
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

FORMAT = "singleshot.export/2"
ENTRY = "singleshot.json"  # inside a .pt2 archive, among its extra files
MAX_BYTES = 2**26  # enough for the names of a million classes


def read_facts(path: Path | str) -> dict[str, Any]:
    """Return class names, input, normalization, temperature and versions of a file written by `export_model`.

    Nothing in the file is run or unpickled.

    Args:
        path: a ``.onnx`` or ``.pt2`` file.

    >>> import tempfile
    >>> import torch
    >>> from singleshot import export_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/a.pt2"
    ...     done = export_model(torch.nn.Linear(4, 2), path, example=torch.zeros(1, 4), format="torch-export")
    ...     facts = read_facts(path)
    >>> facts["classes"], facts["inputs"][0]["shape"]
    (2, ['batch', 4])
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    is_archive = zipfile.is_zipfile(path)
    if not is_archive:
        require_packages("onnx")
    try:
        facts = _read_archive(path) if is_archive else _read_onnx(path)
    except (KeyError, ValueError, RecursionError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} was not exported by singleshot, or is damaged: {error}") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ValueError(f"{path} was not exported by singleshot: its format is not {FORMAT}")
    return facts


def require_packages(*names: str) -> None:
    """Raise an error with the install command if a package of the extra ``export`` is missing."""
    try:
        for name in names:
            import_module(name)
    except ImportError as error:
        raise ValueError(f"ONNX files need more packages ({error}): pip install 'singleshot[export]'") from None


def _read_archive(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if Path(entry.filename).name == ENTRY]
        if len(entries) != 1 or entries[0].file_size > MAX_BYTES:
            raise ValueError(f"no {ENTRY} in it")
        return json.loads(archive.read(entries[0]))


def _read_onnx(path: Path) -> Any:
    import onnx

    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except import_module("google.protobuf.message").DecodeError:
        raise ValueError("not an ONNX file") from None
    return {item.key: json.loads(item.value) for item in model.metadata_props}
