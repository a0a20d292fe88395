"""A trained run to a file that needs nothing of the run."""

from __future__ import annotations

from pathlib import Path

import torch

from singleshot.export.model import Exported, export_model
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
        folder: of a run.
        path: the file to write: ``.onnx``, or ``.pt2`` for torch-export.
        format: ``onnx`` or ``torch-export``.
        weights: ``last`` or ``best``.
        temperature: what the logits are divided by, see `export_model`.
    """
    run = Run.open(folder)
    size = run.recipe.image_size
    return export_model(
        run.load_model(weights),
        path,
        example=torch.zeros(1, run.facts.channels, size, size, dtype=torch.uint8),
        format=format,
        mean=run.facts.mean,
        std=run.facts.std,
        class_names=run.facts.class_names,
        temperature=temperature,
        about={
            "model": run.recipe.model,
            "dataset": Path(run.recipe.dataset).name,  # where a folder is on this machine is nobody's business
            "weights": weights,
            "step": run.checkpoint(weights).step,
        },
    )
