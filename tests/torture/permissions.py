"""Folders that an unprivileged user may not write to: commands read what they can, and refuse the rest clearly."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import shutil
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from singleshot.cli.main import main
from torture.tally import Tally

NOBODY = 65534
PROCESSES = multiprocessing.get_context("fork")


def read_only_folders(tally: Tally) -> None:
    """Run commands in a read-only folder, as the user nobody if this user is root."""
    place = tally.folder / "read-only"
    place.mkdir()
    for name in ("p.npz", "fit.npz"):
        np.savez(place / name, logits=np.eye(3).repeat(9, 0) * 3, labels=np.arange(27) % 3)
    for parent in (tally.folder, tally.folder.parent):  # temporary folders, which only their owner may enter
        parent.chmod(0o755)
    place.chmod(0o555)
    file = str(place / "p.npz")
    commands = [
        (["evaluate", file, "--json"], 0),
        (["calibrate", file, "--fit-on", str(place / "fit.npz"), "-o", str(place / "out.npz")], None),
        (["report", file, "-o", str(place / "out.html")], None),
        (["train", "--dataset", "digits", "--epochs", "1", "--width", "0.03125", "--output", str(place / "run")], None),
        (["export", str(place), "-o", str(place / "out.onnx")], None),
    ]
    try:
        for command, expected in commands:
            with tally.case(" ".join(command[:2])):
                code, text = as_nobody(command, place)
                assert "Traceback" not in text, text
                assert code == expected if expected is not None else code in (1, 2), f"exit code {code}: {text}"
                assert expected == 0 or str(place) in text, text
        assert sorted(path.name for path in place.iterdir()) == ["fit.npz", "p.npz"]
    finally:
        place.chmod(0o755)


def as_nobody(command: list[str], place: Path) -> tuple[object, str]:
    """Run a command as another user; return its exit code and its messages."""
    ours, theirs = PROCESSES.Pipe()
    process = PROCESSES.Process(target=_run, args=(command, place, theirs))
    process.start()
    theirs.close()
    answer: tuple[object, str] = ours.recv()
    process.join(60)
    return answer


def _run(command: list[str], place: Path, connection: Connection) -> None:
    # Once with a folder that may be written to: the other user may be unable to read the modules that are imported.
    writable = place.with_name("writable")
    shutil.copytree(place, writable)
    writable.chmod(0o755)
    _output([argument.replace(str(place), str(writable)) for argument in command])
    shutil.rmtree(writable)
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    os.environ |= {"HOME": str(Path("/nonexistent")), "SINGLESHOT_CACHE": "/nonexistent/cache"}
    connection.send(_output(command))


def _output(command: list[str]) -> tuple[object, str]:
    output, code = io.StringIO(), 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            main(command)
        except SystemExit as error:
            code = error.code  # type: ignore[assignment]
        except BaseException as error:
            output.write(f"Traceback: {type(error).__name__}: {error}")
    return code, output.getvalue()
