"""One quiet pass over images that were not trained on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
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

BATCH = 128  # images per forward pass


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put the model in evaluation mode and record no gradients; restore its mode at the end."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


quiet = evaluation_mode


def image_batches(images: Images, positions: Tensor, normalization: Normalization) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield normalized images and their labels in batches, on the device of the normalization."""
    device = normalization.scale.device
    for index in torch.split(positions, BATCH):
        if len(index):
            yield normalization(images.images[index].to(device)), images.labels[index].to(device)


def logit_batches(
    model: nn.Module, images: Images, positions: Tensor, normalization: Normalization
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield float32 logits (B, C) of one forward pass and labels (B,) in batches, on the model's device."""
    for batch, labels in image_batches(images, positions, normalization):
        with evaluation_mode(model):
            logits = model(batch).float()
        yield logits, labels


def logits_of(
    model: nn.Module, images: Images, positions: Tensor, normalization: Normalization
) -> tuple[Tensor, Tensor]:
    """Return the float32 logits (N, C) of one forward pass and the labels (N,), on the CPU."""
    batches = [
        (logits.cpu(), labels.cpu()) for logits, labels in logit_batches(model, images, positions, normalization)
    ]
    logits, labels = zip(*batches, strict=True)
    return torch.cat(logits), torch.cat(labels)


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
    """Return the calibration over these images, each process taking its share; None if stopped."""
    calibration = Calibration(bins=20)
    largest_share = math.ceil(len(positions) / processes.count)
    processes.same_buffers(model)  # batch norm has seen other images in each process
    batches = logit_batches(model, part, positions[processes.rank :: processes.count], normalization)
    for _ in range(0, largest_share, BATCH):  # the same number of rounds in every process
        if processes.any_of_us(should_stop()):
            return None
        for logits, labels in islice(batches, 1):
            calibration.update(logits=logits, labels=labels)
            on_logits(logits, labels.cpu())
    if processes.count == 1:
        return calibration
    with losses_of_processes_named():
        return calibration.all_reduce()


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
