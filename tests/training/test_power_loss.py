"""Simulated power loss while checkpoints are saved: what was not flushed to disk is gone, and one checkpoint is whole.

After every operation the folder is copied as a power cut could leave it: files that were not flushed are empty, and a
rename whose folder was not flushed has happened in one copy and not in the other.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from singleshot.common.files import write_text
from singleshot.training.checkpoint import Checkpoints, TrainingState


class Disk:
    """Records what is flushed, and copies the folder after every operation."""

    def __init__(self, folder: Path, copies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.copies = folder, copies
        self.flushed: dict[int, tuple[int, int]] = {}  # modification time and size by inode
        self.unflushed_renames: list[tuple[Path, Path]] = []
        self.count = 0
        fsync, rename, replace, rmtree = os.fsync, os.rename, os.replace, shutil.rmtree
        self.rename = rename

        def flush(handle: int) -> None:
            fsync(handle)
            status = os.fstat(handle)
            self.flushed[status.st_ino] = status.st_mtime_ns, status.st_size
            place = Path(f"/proc/self/fd/{handle}").readlink()
            self.unflushed_renames = [pair for pair in self.unflushed_renames if pair[1].parent != place]
            self.copy()

        def renamed(move: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
            def run(source: Any, target: Any) -> None:
                move(source, target)
                if Path(target).is_dir():
                    self.unflushed_renames.append((Path(source), Path(target)))
                self.copy()

            return run

        def remove(place: Any, *args: Any, **options: Any) -> None:
            rmtree(place, *args, **options)
            self.copy()

        monkeypatch.setattr(os, "fsync", flush)
        monkeypatch.setattr(os, "rename", renamed(rename))
        monkeypatch.setattr(os, "replace", renamed(replace))
        monkeypatch.setattr(shutil, "rmtree", remove)

    def copy(self) -> None:
        for undo in (False, True) if self.unflushed_renames else (False,):
            self.count += 1
            copied = self.copies / f"{self.count:04d}"
            shutil.copytree(self.folder, copied)
            for original in self.folder.rglob("*"):
                status = original.stat()
                if original.is_file() and self.flushed.get(status.st_ino) != (status.st_mtime_ns, status.st_size):
                    (copied / original.relative_to(self.folder)).write_bytes(b"")
            for source, target in reversed(self.unflushed_renames) if undo else ():
                where = copied / target.relative_to(self.folder)
                self.rename(where, copied / source.relative_to(self.folder))


def test_a_whole_checkpoint_survives_a_power_cut_at_any_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "checkpoints"
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def save(step: int) -> None:
        with torch.no_grad():
            model.weight.fill_(step)
        Checkpoints(folder).save(model, optimizer, TrainingState(step, epochs_closed=0), recipe_hash="abc")

    for step in (1, 2, 3):
        save(step)
    with monkeypatch.context() as patch:
        disk = Disk(folder, tmp_path / "copies", patch)
        for path in folder.rglob("*"):  # from before the power cut
            disk.flushed[path.stat().st_ino] = path.stat().st_mtime_ns, path.stat().st_size
        save(4)
    assert disk.count >= 8
    found = []
    for copied in sorted(disk.copies.iterdir()):
        last = Checkpoints(copied).last()
        assert last is not None
        again = nn.Linear(4, 3)
        last.load_weights(again)
        assert bool((again.weight == last.step).all())
        found.append(last.step)
    assert set(found) == {3, 4}
    assert (found[0], found[-1]) == (3, 4)


def test_a_text_file_is_flushed_before_it_replaces_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    write_text(folder / "a.json", "old")
    with monkeypatch.context() as patch:
        disk = Disk(folder, tmp_path / "copies", patch)
        status = (folder / "a.json").stat()
        disk.flushed[status.st_ino] = status.st_mtime_ns, status.st_size
        write_text(folder / "a.json", "new")
    contents = [(copied / "a.json").read_text() for copied in sorted(disk.copies.iterdir())]
    assert set(contents) == {"old", "new"}
    assert contents == sorted(contents, reverse=True)
