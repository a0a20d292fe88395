"""Evaluation of a trained run on a split of its dataset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from singleshot.common.checks import check_choice
from singleshot.data import Images
from singleshot.data.augmentation import Normalization
from singleshot.evaluation.evaluation import Evaluation, evaluate_batches
from singleshot.evaluation.formatting import amount
from singleshot.predictions import write_predictions
from singleshot.training.distributed import select_device
from singleshot.training.inference import logits_of
from singleshot.training.run import Run
from singleshot.training.schedule import load_images, trained_and_held_out

SPLITS = ("test", "validation", "train")


@dataclass(frozen=True, eq=False)
class LoadedRun:
    """A trained run with its model and the images of one split, loaded once."""

    run: Run
    split: str
    weights: str
    step: int  # of the weights
    model: nn.Module  # in evaluation mode
    normalization: Normalization
    images: Images  # the part of the dataset that the split is taken from
    positions: Tensor  # of the split's images in it

    @classmethod
    def open(
        cls,
        folder: Path | str,
        *,
        split: str = "test",
        weights: str = "last",
        data_root: Path | None = None,
        device: str = "auto",
    ) -> LoadedRun:
        """Load the weights (``last`` or ``best``) and the images of a split."""
        check_choice("split", split, SPLITS)
        run = Run.open(folder)
        checkpoint = run.checkpoint(weights)
        target = select_device(device)
        model = run.new_model()
        checkpoint.load_weights(model)
        images, positions = _split_images(run, split, data_root)
        normalization = run.normalization(target)
        return cls(run, split, weights, checkpoint.step, model.to(target).eval(), normalization, images, positions)

    def evaluate(self, *, predictions: Path | None = None, **options: Any) -> Evaluation:
        """Evaluate the run, with the options of `evaluate_batches`.

        With ``predictions``, also write its logits and labels to that .npz file.
        """
        logits, labels = logits_of(self.model, self.images, self.positions, self.normalization)
        if predictions is not None:
            write_predictions(predictions, [(logits.numpy(), labels.numpy())], class_names=self.run.info.class_names)
        evaluation = evaluate_batches([{"logits": logits, "labels": labels}], **options)
        folder, size = self.run.folder, amount(len(self.positions), f"{self.split} image")
        return replace(
            evaluation,
            name=str(folder),
            about=f"{size}, one forward pass each, after step {self.step:,}",
            source={"run": str(folder), "split": self.split, "weights": self.weights, "step": self.step},
        )


def _split_images(run: Run, split: str, data_root: Path | None) -> tuple[Images, Tensor]:
    recipe = run.recipe
    # Training fails on unreadable images unless it skips them too.
    dataset = load_images(recipe, data_root=data_root, skip_unreadable=True)
    run.check_dataset(dataset)
    if split == "test":
        return dataset.test, torch.arange(len(dataset.test))
    trained, held_out = trained_and_held_out(recipe, dataset.train.labels)
    positions = trained if split == "train" else held_out
    if not len(positions):
        reason = "was trained on its validation images at the end" if recipe.give_back else "has no validation images"
        raise ValueError(f"{run.folder} {reason}; use --split test")
    return dataset.train, positions
