"""Overconfident predictions in files, and the commands that read them, run in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro

CLASSES = 4


def calibrated(seed: int, rows: int) -> tuple[Any, Any]:
    """Logits, and labels drawn from their softmax."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(rows, CLASSES)) * 1.5
    return logits, (logits + random.gumbel(size=logits.shape)).argmax(1)


def write_overconfident(folder: Path) -> None:
    """Overconfident predictions, with logits multiplied by 3, in val.npz and test.npz."""
    for seed, name in enumerate(["val", "test"]):
        logits, labels = calibrated(seed, 1500)
        np.savez(
            folder / f"{name}.npz", logits=(logits * 3).astype(np.float32), labels=labels, class_names=list("abcd")
        )


def run(command: Any, *args: str) -> None:
    tyro.cli(command, args=list(args), config=(tyro.conf.FlagCreatePairsOff,))


def shown_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)
