"""Opening a file of predictions, by the ending of its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from singleshot.common.checks import check_choice
from singleshot.predictions.columns import check_kind
from singleshot.predictions.csv_files import open_csv
from singleshot.predictions.numpy_files import open_npy, open_npz
from singleshot.predictions.parquet_files import open_parquet
from singleshot.predictions.predictions import Predictions
from singleshot.predictions.safetensors_files import open_safetensors
from singleshot.predictions.source import MEANINGS, Asked, Kind, LabelsAre, Source, check_source, damage_named

OPENERS: dict[str, Callable[[Path, Asked], Source]] = {
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

    Whether scores are logits or probabilities is said by their name or by ``kind``; it is never guessed. Names are
    those of arrays and tensors, ``logits`` or ``probs`` (N, C) and ``labels`` (N,), or of columns, ``logit_CLASS`` or
    ``prob_CLASS`` and ``label``. Labels are class names or, where they are whole numbers, class indices. Arrays and
    tensors may stand beside T stochastic passes, ``pass_logits`` or ``pass_probs`` (T, N, C): see
    `Predictions.pass_batches`.

    Args:
        path: the file.
        kind: "logits" or "probs": which to take where there are both, and what scores of another name are.
        scores: name of the array that holds the scores, or what the names of their columns begin with.
        labels: name of the array or column that holds the labels; for .npy scores, the .npy file that does.
        labels_are: "names" or "indices": what whole numbers among the labels are, where classes are named by other
            numbers than their indices and so both could be meant.
    """
    path = Path(path)
    check_kind(kind)
    if labels_are is not None:
        check_choice("labels_are", labels_are, MEANINGS)
    ending = next((ending for ending in FORMATS if path.name.lower().endswith(ending)), None)
    if ending is None:
        raise ValueError(f"{path} is of no known format; predictions are read from {', '.join(FORMATS)} files")
    check_file(path)
    with damage_named(path):
        source = OPENERS[ending](path, Asked(scores, kind, labels))
    check_source(source, path)
    return Predictions(path, source, labels_are)


def is_predictions(path: Path) -> bool:
    """Whether this names a file of predictions, be it there or not, and no folder, which may be a run."""
    return not path.is_dir() and (path.is_file() or path.name.lower().endswith(FORMATS))


def check_file(path: Path) -> None:
    """Refuse what is not there, is no file, or has nothing in it."""
    if not path.exists():
        raise ValueError(f"{path}: there is no such file")
    if not path.is_file():
        raise ValueError(f"{path} is a folder; name a file of predictions")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty: it has not a single byte")
