"""Flags that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import FlagCreatePairsOff, Positional, arg

Flag = Annotated[bool, FlagCreatePairsOff]  # --flag without --no-flag
AsJson = Annotated[Flag, arg(name="json")]
Weights = Literal["last", "best"]
Paths = Annotated[Positional[tuple[Path, ...]], arg(help_behavior_hint="")]  # no "(default: )" in the help


@dataclass(frozen=True)
class ReadOptions:
    """How to read files of predictions."""

    kind: Literal["logits", "probs", "confidence"] | None = None
    """what the scores are if their name does not state it, or which to use if the file has both."""
    scores: str | None = None
    """name of the array that holds the scores, prefix of the names of their columns, or these names, with commas."""
    labels: str | None = None
    """name of the array or column of labels; for an .npy file, the .npy file with its labels."""
    labels_are: Literal["names", "indices"] | None = None
    """meaning of integer labels, if classes are named by numbers other than their indices."""
    predicted: str | None = None
    """name of the predicted classes, if the scores are only their confidence."""
    positive: str | None = None
    """name of the positive class, if the scores are only those of the positive class."""
    normalize: Flag = False
    """divide each row of probabilities by its sum; a single score, in percent, by 100."""


@dataclass(frozen=True)
class RunOptions:
    """How to evaluate trained runs."""

    split: Literal["test", "validation", "train"] = "test"
    """images to evaluate on."""
    weights: Weights = "last"
    """the last checkpoint, or the best on the validation images."""
    data_root: Path | None = None
    """folder of the datasets. Default: $SINGLESHOT_DATA, then the user's cache."""
    device: str = "auto"
    """cpu, cuda, cuda:1 or mps; auto selects the fastest available."""


def check_seeds_and_jobs(seeds: int, jobs: int) -> None:
    """Raise ValueError for numbers that no grid of runs can have."""
    if not 1 <= seeds <= 1000:
        raise ValueError(f"--seeds must lie in [1, 1000], got {seeds}")
    if jobs < 0:
        raise ValueError(f"--jobs must be at least 1, or 0 for all cores, got {jobs}")
