"""Use of a trained network: logits and calibration over a split, predictions for image files, and export."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from singleshot.data import Images, UnreadableImageError
from singleshot.data.augmentation import Normalization
from singleshot.data.formats.folder import images_below
from singleshot.data.image_source import decode_files
from singleshot.export import Exported, export_model
from singleshot.metrics import Calibration
from singleshot.training.distributed import Processes, lost_process_errors, select_device
from singleshot.training.run import Run

BATCH = 128  # images per forward pass


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put the model in evaluation mode and record no gradients; restore the mode of every module at the end."""
    modes = [(module, module.training) for module in model.modules()]  # a frozen batch norm differs from the model
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


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
    batches = logit_batches(model, images, positions, normalization)
    logits, labels = zip(*((logits.cpu(), labels.cpu()) for logits, labels in batches), strict=True)
    return torch.cat(logits), torch.cat(labels)


def evaluate(
    model: nn.Module,
    images: Images,
    positions: Tensor,
    normalization: Normalization,
    processes: Processes,
    *,
    should_stop: Callable[[], bool] = lambda: False,
) -> Calibration | None:
    """Return the calibration over these images, each process taking its share; None if a process must stop."""
    calibration = Calibration(bins=20)
    for batch in shared_batches(model, images, positions, normalization, processes, should_stop=should_stop):
        if batch is None:
            return None
        if len(batch[1]):
            calibration.update(logits=batch[0], labels=batch[1])
    if processes.count == 1:
        return calibration
    with lost_process_errors():
        return calibration.all_reduce()


def shared_batches(
    model: nn.Module,
    images: Images,
    positions: Tensor,
    normalization: Normalization,
    processes: Processes,
    *,
    should_stop: Callable[[], bool],
) -> Iterator[tuple[Tensor, Tensor] | None]:
    """Yield logits and labels of this process's share of the images, and None if a process must stop.

    All processes yield equally often; one whose share has ended yields no rows.
    """
    for buffer in model.buffers():  # the statistics of batch norm differ between processes
        processes.broadcast(buffer)
    batches = logit_batches(model, images, positions[processes.rank :: processes.count], normalization)
    no_rows = torch.empty(0, 0), torch.empty(0, dtype=torch.long)
    for _ in range(0, math.ceil(len(positions) / processes.count), BATCH):
        if processes.any(should_stop()):
            yield None
            return
        yield next(batches, no_rows)


@dataclass(frozen=True)
class Prediction:
    """The most likely class of an image; ``abstained`` if its confidence is below the threshold."""

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
    """Classify image files, and the images in folders, with one forward pass of a run each.

    Return the predictions, and a message for each file that was left out because it cannot be read.
    """
    run = Run.open(folder)
    target = select_device(device)
    model = run.load_model(weights).to(target)
    normalization = run.normalization(target)
    predictions: list[Prediction] = []
    unreadable: list[str] = []
    files = _files(images)
    numbered = [(path, number) for number, path in enumerate(files)]
    for batch in decode_files(numbered, run.recipe.image_size, channels=run.info.channels, batch=BATCH):
        if batch.unreadable and not skip_unreadable:
            raise UnreadableImageError(f"{batch.unreadable[0]}; --skip-unreadable leaves it out")
        unreadable += batch.unreadable
        if not len(batch.labels):
            continue
        with evaluation_mode(model):
            logits = model(normalization(torch.from_numpy(batch.images).to(target)))
        confidences, labels = logits.cpu().double().softmax(1).max(1)
        for number, confidence, label in zip(batch.labels, confidences.tolist(), labels.tolist(), strict=True):
            class_name = run.info.class_names[label]
            predictions.append(Prediction(str(files[number]), class_name, confidence, confidence < abstain_below))
    return predictions, unreadable


def _files(images: Sequence[Path]) -> list[Path]:
    """Replace folders by the images in them."""
    files: list[Path] = []
    for path in images:
        found = images_below(path) if path.is_dir() else [path]
        if not found:
            raise ValueError(f"{path} is a folder without images")
        files.extend(found)
    return files


def export_run(
    folder: Path | str,
    path: Path | str,
    *,
    format: str = "onnx",
    weights: str = "last",
    temperature: float | None = None,
) -> Exported:
    """Write the single-shot classifier of a run: uint8 images (N, channels, H, W) to logits and probabilities.

    The format is ``onnx`` or ``torch-export``, the weights are ``last`` or ``best``; see `export_model`.

    >>> import tempfile
    >>> from singleshot.training import Recipe, train
    >>> recipe = Recipe(dataset="digits", model="small_cnn", image_size=8, train_images=100, epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = train(recipe, f"{folder}/run")
    ...     done = export_run(f"{folder}/run", f"{folder}/digits.pt2", format="torch-export")
    >>> done.facts["dataset"], done.facts["inputs"][0]["shape"]
    ('digits', ['batch', 1, 8, 8])
    """
    run = Run.open(folder)
    size = run.recipe.image_size
    return export_model(
        run.load_model(weights),
        path,
        example=torch.zeros(1, run.info.channels, size, size, dtype=torch.uint8),
        format=format,
        mean=run.info.mean,
        std=run.info.std,
        class_names=run.info.class_names,
        temperature=temperature,
        about={
            "model": run.recipe.model,
            "dataset": Path(run.recipe.dataset).name,  # without the path of a folder, which is private
            "weights": weights,
            "step": run.checkpoint(weights).step,
        },
    )
