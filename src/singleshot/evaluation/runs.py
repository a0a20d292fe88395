"""What a run is worth: its calibration on a split of its data set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from singleshot.common.checks import check_choice
from singleshot.common.files import write_atomically
from singleshot.common.splits import split_training
from singleshot.data import Images, load_dataset
from singleshot.metrics import CalibrationResult
from singleshot.training.inference import evaluate
from singleshot.training.processes import Processes
from singleshot.training.run import Run


def evaluate_run(
    folder: Path | str,
    *,
    split: str = "test",
    weights: str = "last",
    predictions: Path | None = None,
    data_root: Path | None = None,
    device: str = "auto",
) -> tuple[CalibrationResult, int]:
    """The calibration of a run on a split of its data, and the step its weights are of."""
    check_choice("split", split, ("test", "validation", "train"))
    run = Run.open(folder)
    checkpoint = run.checkpoint(weights)
    processes = Processes(device=Processes.from_environment(device).device)
    model = run.new_model()
    checkpoint.load_weights(model)
    model = model.to(processes.device).eval()
    part, positions = judged_images(run, split, data_root)
    kept: list[tuple[Tensor, Tensor]] = []
    calibration = evaluate(
        model,
        part,
        positions,
        run.normalization(processes.device),
        processes,
        on_logits=lambda logits, labels: kept.append((logits.cpu(), labels)) if predictions is not None else None,
    )
    assert calibration is not None
    if predictions is not None:
        _write_predictions(predictions, kept, run.facts.class_names)
    return calibration.compute(), checkpoint.step


def judged_images(run: Run, split: str, data_root: Path | None = None) -> tuple[Images, Tensor]:
    """The part of a run's data set that a split is taken from, and which of its images these are."""
    recipe = run.recipe
    # Images that could not be read were left out of training as well, or there would be no run.
    dataset = load_dataset(recipe.dataset, data_root=data_root, image_size=recipe.image_size, skip_unreadable=True)
    run.refuse_other_data(dataset)
    if split == "test":
        return dataset.test, torch.arange(len(dataset.test))
    trained, held_out = split_training(
        dataset.train.labels, validation=recipe.validation, train_images=recipe.train_images
    )
    positions = trained if split == "train" else held_out
    if not len(positions):
        raise ValueError(f"{run.folder} was trained without validation images; evaluate --split test")
    return dataset.train, positions


def _write_predictions(path: Path, kept: list[tuple[Tensor, Tensor]], class_names: tuple[str, ...]) -> None:
    logits, labels = (torch.cat(parts).numpy() for parts in zip(*kept, strict=True))

    def write(temporary: Path) -> None:
        np.savez(temporary, logits=logits, labels=labels, class_names=np.array(class_names))

    write_atomically(path, write)
