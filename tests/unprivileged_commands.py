"""Commands that a process runs after it has given up its privileges; in a module that the process can import."""

from __future__ import annotations

import os
from pathlib import Path

from singleshot.cli.main import main

NOBODY = 65534
TRAIN = ["train", "--dataset", "digits", "--width", "0.03125", "--image-size", "8", "--epochs", "1", "--no-report"]
TRAIN += ["--train-images", "80"]


def commands_without_privileges(place: str, writable: str) -> None:
    """Run commands in a writable folder, and again, as the user nobody, in one that is read-only."""
    for folder in (writable, place):
        file = f"{folder}/p.npz"
        if folder == place and os.getuid() == 0:  # every module is imported by now: nobody may be unable to read them
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        for command in (
            ["evaluate", file, "--json", "--replicates", "0"],
            ["calibrate", file, "--fit-on", f"{folder}/fit.npz", "-o", f"{folder}/out.npz"],
            ["report", file, "-o", f"{folder}/out.html", "--replicates", "0"],
            [*TRAIN, "--output", f"{folder}/run"],
        ):
            code: object = 0
            try:
                main(command)
            except SystemExit as error:
                code = error.code
            print(f"{Path(folder).name} {command[0]}: {code}", flush=True)
