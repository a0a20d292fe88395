from __future__ import annotations

import errno
from pathlib import Path

import pytest

from singleshot.common.files import write_atomically, write_text


def test_a_failed_write_keeps_the_old_file_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    target = tmp_path / "folder" / "file.json"
    write_text(target, "old")

    def fail_half_way(path: Path) -> None:
        path.write_text("ne")
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="disk is full"):
        write_atomically(target, fail_half_way)
    assert target.read_text() == "old"
    assert list(target.parent.iterdir()) == [target]
    write_text(target, "neu: äöü")
    assert target.read_text(encoding="utf-8") == "neu: äöü"


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: .*file\.json'$"):
        write_atomically(tmp_path / "file.json", fail)
