"""What a trained run says about any image, and whether it is sure enough to say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from singleshot.data import UnreadableImageError, decode_image
from singleshot.data.decoding import Pixels
from singleshot.data.folder import images_below
from singleshot.training.evaluation import quiet
from singleshot.training.processes import Processes
from singleshot.training.run import Run

BATCH = 128  # images decoded before they are looked at


@dataclass(frozen=True)
class Prediction:
    """The most likely class of one image; ``abstained`` where its confidence is too low to act on."""

    image: str
    class_name: str
    confidence: float
    abstained: bool


def predict(
    folder: Path | str,
    images: Sequence[Path],
    *,
    abstain_below: float = 0.0,
    weights: str = "last",
    device: str = "auto",
    skip_unreadable: bool = False,
) -> tuple[list[Prediction], list[str]]:
    """Class and confidence of each image file, from one forward pass, and what could not be read.

    Args:
        folder: of a run.
        images: image files, or folders with images in them.
        abstain_below: predictions with less confidence than this are marked as abstained.
        weights: ``last`` or ``best``.
        device: where to compute.
        skip_unreadable: go on after a file that cannot be read; the second list names it and says why.
    """
    run = Run.open(folder)
    target = Processes.from_environment(device).device
    model = run.load_model(weights).to(target)
    normalization = run.normalization(target)
    found: list[Prediction] = []
    unreadable: list[str] = []
    files = _files(images)
    with quiet(model):
        for start in range(0, len(files), BATCH):
            decoded = [_decoded(path, run, unreadable if skip_unreadable else None) for path in files[start:][:BATCH]]
            readable = [(name, pixels) for name, pixels in decoded if pixels is not None]
            if not readable:
                continue
            batch = torch.from_numpy(np.stack([pixels for _, pixels in readable])).to(target)
            confidences, labels = model(normalization(batch)).cpu().double().softmax(1).max(1)
            for (name, _), confidence, label in zip(readable, confidences.tolist(), labels.tolist(), strict=True):
                class_name = run.facts.class_names[label]
                found.append(Prediction(name, class_name, confidence, confidence < abstain_below))
    return found, unreadable


def _decoded(path: Path, run: Run, unreadable: list[str] | None) -> tuple[str, Pixels | None]:
    """Name and pixels; without pixels where they cannot be read and that is to be noted in a list."""
    try:
        return str(path), decode_image(path, run.recipe.image_size, run.facts.channels)
    except UnreadableImageError as error:
        if unreadable is None:
            raise UnreadableImageError(f"{error}; --skip-unreadable goes on without it") from None
        unreadable.append(str(error))
        return str(path), None


def _files(images: Sequence[Path]) -> list[Path]:
    """The files that were named, and the images in the folders that were."""
    files: list[Path] = []
    for path in images:
        inside = images_below(path) if path.is_dir() else [path]
        if not inside:
            raise ValueError(f"{path} is a folder without images")
        files.extend(inside)
    return files
