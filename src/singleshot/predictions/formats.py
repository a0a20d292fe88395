"""Open a file of predictions by its ending."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from singleshot.common.checks import check_choice
from singleshot.predictions.csv_files import open_csv
from singleshot.predictions.file import Predictions, damage_reported
from singleshot.predictions.numpy_files import open_npy, open_npz
from singleshot.predictions.parquet_files import open_parquet
from singleshot.predictions.safetensors_files import open_safetensors
from singleshot.predictions.selection import KINDS, Kind, Selection
from singleshot.predictions.validation import LABEL_MEANINGS, LabelsAre

OPENERS: dict[str, Callable[[Path, Selection], Predictions]] = {
    ".npz": open_npz,
    ".npy": open_npy,
    ".csv": open_csv,
    ".csv.gz": open_csv,
    ".parquet": open_parquet,
    ".safetensors": open_safetensors,
}
FORMATS = tuple(OPENERS)


def read_predictions(
    path: Path | str,
    *,
    kind: Kind | None = None,
    scores: str | None = None,
    labels: str | None = None,
    labels_are: LabelsAre | None = None,
) -> Predictions:
    """Open predictions in an .npz, .npy, .csv, .csv.gz, .parquet or .safetensors file, to be read in chunks.

    The scores are arrays or tensors ``logits`` or ``probs`` (N, C), or columns ``logit_CLASS`` or ``prob_CLASS``; their
    names or ``kind`` state whether they are logits or probabilities. The labels are an array ``labels`` (N,) or a
    column ``label`` of class names or class indices. Arrays and tensors of T stochastic passes, ``pass_logits`` or
    ``pass_probs`` (T, N, C), are optional: see `Predictions.pass_batches`.

    Args:
        path: the file.
        kind: "logits" or "probs": which to use if the file has both, or what scores with another name are.
        scores: name of the array that holds the scores, or prefix of the names of their columns.
        labels: name of the array or column that holds the labels; for .npy scores, the .npy file of labels.
        labels_are: "names" or "indices": the meaning of integer labels if classes are named by other numbers than
            their indices.
    """
    path = Path(path)
    if kind is not None:
        check_choice("kind", kind, KINDS)
    if labels_are is not None:
        check_choice("labels_are", labels_are, LABEL_MEANINGS)
    ending = next((ending for ending in FORMATS if path.name.lower().endswith(ending)), None)
    if ending is None:
        raise ValueError(f"{path} has an unknown format; supported formats: {', '.join(FORMATS)}")
    if not path.exists():
        raise ValueError(f"{path}: no such file")
    if not path.is_file():
        what = "a directory" if path.is_dir() else "a pipe, a socket or a device"
        raise ValueError(f"{path} is {what}; expected a file of predictions")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty")
    with damage_reported(path):
        found = OPENERS[ending](path, Selection(scores, kind, labels))
    return found if found.labels_are else replace(found, labels_are=labels_are)


def is_predictions(path: Path) -> bool:
    """Return whether a path names a file of predictions, existing or not, rather than a run's directory."""
    return not path.is_dir() and (path.is_file() or path.name.lower().endswith(FORMATS))
