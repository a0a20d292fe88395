"""Open a file of predictions by its ending."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from singleshot.common.checks import check_choice
from singleshot.predictions.csv_files import open_csv
from singleshot.predictions.few_scores import open_single_score
from singleshot.predictions.file import Predictions, damage_reported
from singleshot.predictions.jsonl_files import open_jsonl
from singleshot.predictions.names import KINDS, Kind
from singleshot.predictions.numpy_files import open_npy, open_npz
from singleshot.predictions.parquet_files import open_feather, open_parquet
from singleshot.predictions.safetensors_files import open_safetensors
from singleshot.predictions.selection import Selection
from singleshot.predictions.validation import LABEL_MEANINGS, LabelsAre

OPENERS: dict[str, Callable[[Path, Selection], Predictions]] = {
    ".npz": open_npz,
    ".npy": open_npy,
    **{f"{ending}{packed}": open_csv for ending in (".csv", ".tsv", ".txt") for packed in ("", ".gz", ".zst")},
    **{f"{ending}{packed}": open_jsonl for ending in (".jsonl", ".ndjson") for packed in ("", ".gz", ".zst")},
    ".parquet": open_parquet,
    ".feather": open_feather,
    ".safetensors": open_safetensors,
}
INSTEAD = {
    **dict.fromkeys(
        (".pt", ".pth", ".pkl", ".pickle", ".joblib"),
        "loading it could run code. Save the arrays with numpy.savez('p.npz', logits=..., labels=...)",
    ),
    ".json": "write one object per line: df.to_json('p.jsonl', orient='records', lines=True)",
    **dict.fromkeys((".xlsx", ".xls", ".h5", ".hdf5", ".mat"), "write it as .csv: df.to_csv('p.csv')"),
}
"""How to write files of other formats."""
FORMATS = tuple(OPENERS)


def read_predictions(
    path: Path | str,
    *,
    kind: Kind | None = None,
    scores: str | None = None,
    labels: str | None = None,
    labels_are: LabelsAre | None = None,
    predicted: str | None = None,
    positive: str | None = None,
    normalize: bool = False,
) -> Predictions:
    """Open predictions in a file of arrays (.npz, .npy, .safetensors) or a table (.csv, .tsv, .jsonl, .parquet, …).

    The scores are arrays or tensors ``logits`` or ``probs`` (N, C), or columns ``logit_CLASS`` or ``prob_CLASS``; their
    names or ``kind`` state whether they are logits or probabilities. The labels are an array ``labels`` (N,) or a
    column ``label`` of class names or class indices; other usual names are known, too. A single column of scores is
    that of the positive class, or with a column of predicted classes their confidence. Arrays and tensors of T
    stochastic passes, ``pass_logits`` or ``pass_probs`` (T, N, C), are optional: see `Predictions.pass_batches`.

    Args:
        path: the file.
        kind: "logits" or "probs": which to use if the file has both, or what scores with another name are. For
            "confidence" the scores are those of the predicted class only.
        scores: name of the array that holds the scores, prefix of the names of their columns, or the names of the
            columns separated by commas.
        labels: name of the array or column that holds the labels; for .npy scores, the .npy file of labels.
        labels_are: "names" or "indices": the meaning of integer labels if classes are named by other numbers than
            their indices.
        predicted: name of the array or column of predicted classes, if the scores are only their confidence.
        positive: name of the positive class, if the scores are only those of the positive class.
        normalize: divide each row of probabilities by its sum, which must be positive; a single score by 100.

    >>> import tempfile
    >>> import numpy as np
    >>> from singleshot import write_predictions
    >>> logits, labels = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([0, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_predictions(f"{folder}/a.npz", [(logits, labels)], class_names=("cat", "dog"))
    ...     predictions = read_predictions(f"{folder}/a.npz")
    >>> predictions.kind, predictions.class_names
    ('logits', ('cat', 'dog'))
    """
    path = Path(path)
    if kind is not None:
        check_choice("kind", kind, KINDS)
    if labels_are is not None:
        check_choice("labels_are", labels_are, LABEL_MEANINGS)
    ending = next((ending for ending in FORMATS if path.name.lower().endswith(ending)), None)
    if ending is None:
        instead = next((f": {how}" for end, how in INSTEAD.items() if path.name.lower().endswith(end)), "")
        raise ValueError(f"{path} has an unsupported format{instead}. Supported formats: {', '.join(FORMATS)}")
    if not path.exists():
        raise ValueError(f"{path}: no such file")
    if not path.is_file():
        what = "a directory" if path.is_dir() else "a pipe, a socket or a device"
        raise ValueError(f"{path} is {what}; expected a file of predictions")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty")
    with damage_reported(path):
        found = OPENERS[ending](path, Selection(scores, kind, labels, predicted))
    found = replace(found, labels_are=found.labels_are or labels_are, normalize=normalize)
    if found.has_single_score:
        found = open_single_score(found, positive)
    elif positive is not None:
        raise ValueError(f"{path} has scores of {found.classes} classes; --positive is for files with a single score")
    return found


def is_predictions(path: Path) -> bool:
    """Return whether a path names a file of predictions, existing or not, rather than a run's directory."""
    return not path.is_dir() and (path.is_file() or path.name.lower().endswith(FORMATS))
