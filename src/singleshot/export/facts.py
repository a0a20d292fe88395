"""What an exported file says about itself, as JSON values that can be read without running anything in it."""

from __future__ import annotations

import json
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

FORMAT = "singleshot.export/1"
ENTRY = "singleshot.json"  # inside a .pt2 archive, among its extra files
MOST_BYTES = 2**26  # of facts: a class name for each of a million classes has room


def facts_text(facts: dict[str, Any]) -> dict[str, str]:
    """Each fact as JSON, for a format that keeps strings only."""
    return {name: json.dumps(value, ensure_ascii=False, allow_nan=False) for name, value in facts.items()}


def read_facts(path: Path | str) -> dict[str, Any]:
    """Class names, input, normalization, temperature and versions of a file that `export_model` has written.

    Nothing in the file is run or unpickled.

    Args:
        path: a ``.onnx`` or ``.pt2`` file.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    if not zipfile.is_zipfile(path):
        require_packages("onnx")
    try:
        return _from_archive(path) if zipfile.is_zipfile(path) else _from_onnx(path)
    except (KeyError, ValueError, RecursionError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is no file that singleshot has exported, or it is damaged ({error})") from None


def require_packages(*names: str) -> None:
    """Refuse to begin without packages of the extra ``export``."""
    try:
        for name in names:
            import_module(name)
    except ImportError as error:
        raise ValueError(f"ONNX files need more packages ({error}): pip install 'singleshot[export]'") from None


def _from_archive(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if Path(entry.filename).name == ENTRY]
        if len(entries) != 1 or entries[0].file_size > MOST_BYTES:
            raise ValueError(f"it has no {ENTRY}")
        return _checked(json.loads(archive.read(entries[0])))


def _from_onnx(path: Path) -> dict[str, Any]:
    import onnx

    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except import_module("google.protobuf.message").DecodeError:
        raise ValueError("it cannot be read as ONNX") from None
    return _checked({item.key: json.loads(item.value) for item in model.metadata_props})


def _checked(facts: Any) -> dict[str, Any]:
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT}")
    return facts
