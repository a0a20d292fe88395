"""Commands of an unprivileged user in a folder that only others may write to."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from running import Started

from unprivileged_commands import commands_without_privileges


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_what_cannot_be_written_is_refused_and_the_rest_works(folder: Path) -> None:
    place, writable = folder / "read-only", folder / "writable"
    place.mkdir()
    random = np.random.default_rng(0)
    for name in ("p.npz", "fit.npz"):
        np.savez(place / name, logits=random.normal(size=(40, 3)), labels=np.arange(40) % 3)
    shutil.copytree(place, writable)
    place.chmod(0o555)
    started = Started(commands_without_privileges, str(place), str(writable)).finish()
    place.chmod(0o755)
    codes = [line for line in started.output.splitlines() if line.startswith(("read-only ", "writable "))]
    commands = ("evaluate", "calibrate", "report", "train")
    assert [line for line in codes if line.startswith("writable")] == [f"writable {name}: 0" for name in commands]
    assert codes[4] == "read-only evaluate: 0", started.errors
    assert [line.partition(":")[0] for line in codes[5:]] == [f"read-only {name}" for name in commands[1:]]
    assert all(line.endswith((": 1", ": 2")) for line in codes[5:]), codes
    assert "Traceback" not in started.errors
    assert started.errors.count(str(place)) >= 3, started.errors  # each message names the folder
    assert sorted(path.name for path in place.iterdir()) == ["fit.npz", "p.npz"]
