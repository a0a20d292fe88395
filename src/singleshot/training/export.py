"""Export of a trained run to a file that runs without it."""

from __future__ import annotations

from pathlib import Path

import torch

from singleshot.export import Exported, export_model
from singleshot.training.run import Run


def export_run(
    folder: Path | str,
    path: Path | str,
    *,
    format: str = "onnx",
    weights: str = "last",
    temperature: float | None = None,
) -> Exported:
    """Write the single-shot classifier of a run: uint8 images (N, channels, H, W) to logits and probabilities.

    Args:
        folder: folder of the run.
        path: the file to write: ``.onnx``, or ``.pt2`` for torch-export.
        format: ``onnx`` or ``torch-export``.
        weights: ``last`` or ``best``.
        temperature: divides the logits, see `export_model`.
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
