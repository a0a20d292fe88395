"""Pickles in the place of every file that is read: nothing in them runs."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import singleshot as ss
from singleshot.data.registry import load_dataset
from singleshot.posthoc import load_scaling
from singleshot.predictions import FORMATS, read_predictions
from singleshot.training.checkpoint import WEIGHTS, Checkpoints
from singleshot.training.run import Run
from torture.mutation import flip_bit
from torture.tally import Tally

CASES = 30


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return exec, (f"open({str(self.marker)!r}, 'w').close()",)


def pickled_files(tally: Tally) -> None:
    """Write a pickle with a payload to a file, read the file, and look for what the payload would leave."""
    marker = tally.folder / "executed"
    content = pickle.dumps({"data": Payload(marker), b"labels": [0, 1]}, protocol=tally.random.randint(0, 5))

    def predictions(path: Path) -> None:
        read_predictions(path, labels=str(path) if path.suffix == ".npy" else None, kind="logits").load()

    def data_set(path: Path) -> None:
        load_dataset("cifar100", data_root=path.parent.parent)

    def weights(path: Path) -> None:
        last = Checkpoints(path.parent.parent).last()
        assert last is not None

    places: list[tuple[str, Callable[[Path], Any]]] = [
        *((f"a{ending}", predictions) for ending in FORMATS),
        ("state.json", ss.Calibration.load),
        ("scaling.json", load_scaling),
        ("run/run.json", lambda path: Run.open(path.parent)),
        (f"checkpoints/step-00000001/{WEIGHTS}", weights),
        ("cifar-100-python/train", data_set),
    ]
    for number in range(CASES):
        name, read = tally.random.choice(places)
        path = tally.folder / str(number) / name
        path.parent.mkdir(parents=True)
        data = content if tally.random.random() < 0.7 else flip_bit(content, tally.random)
        if name == "a.npz" and tally.random.random() < 0.5:
            objects = np.array([Payload(marker)] * 3, dtype=object)
            np.savez(path, allow_pickle=True, logits=objects, labels=objects)
        else:
            path.write_bytes(data)
        with tally.case(f"{name}: {path}"):
            try:
                read(path)
            except Exception as error:
                assert isinstance(error, ValueError), f"{type(error).__name__}: {error}"
            else:
                raise AssertionError("a pickle was accepted")
            assert not marker.exists(), "code of the pickle was run"
