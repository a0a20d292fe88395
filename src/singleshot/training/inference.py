"""One quiet pass over images that were not trained on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from singleshot.data import Images, UnreadableImageError, decode_image
from singleshot.data.augmentation import Normalization
from singleshot.data.decoding import Pixels
from singleshot.data.formats.folder import images_below
from singleshot.metrics import Calibration
from singleshot.training.processes import Processes, losses_of_processes_named
from singleshot.training.run import Run

BATCH = 128  # images at a time: no more memory than a training step takes


@contextmanager
def quiet(model: nn.Module) -> Iterator[None]:
    """Within it the model is in evaluation mode and records no gradients."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def evaluate(
    model: nn.Module,
    part: Images,
    positions: Tensor,
    normalization: Normalization,
    processes: Processes,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    on_logits: Callable[[Tensor, Tensor], None] = lambda logits, labels: None,
) -> Calibration | None:
    """The calibration over these images, each process taking its share; None when asked to stop on the way."""
    calibration = Calibration(bins=20)
    mine = positions[processes.rank :: processes.count]
    most = math.ceil(len(positions) / processes.count)  # the same number of rounds in every process
    processes.same_buffers(model)  # or each would judge by statistics of its own
    with quiet(model):
        for start in range(0, most, BATCH):
            if processes.any_of_us(should_stop()):
                return None
            index = mine[start : start + BATCH]
            if len(index):
                logits = model(normalization(part.images[index].to(processes.device))).float()
                calibration.update(logits=logits, labels=part.labels[index].to(processes.device))
                on_logits(logits, part.labels[index])
    if processes.count == 1:
        return calibration
    with losses_of_processes_named():
        return calibration.all_reduce()


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
