"""What calibration metrics do not show: selective risk, the ranking of errors, and calibration under shift."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from singleshot.data import Dataset, Images
from singleshot.data.augmentation import Normalization
from singleshot.evaluation.shift import SHIFTS, STRENGTHS, shifted
from singleshot.metrics import Calibration, Examples, risk_coverage
from singleshot.metrics.selective import auroc
from singleshot.sampling import sample
from singleshot.training.inference import evaluation_mode, image_batches, logits_of
from singleshot.uncertainty import normalized_variance

PASSES = 5
RANKED, SHIFTED = 5000, 2000  # largest numbers of training and of test images


def measure_details(
    model: nn.Module, dataset: Dataset, trained: Tensor, normalization: Normalization
) -> dict[str, Any]:
    """Return the AURC on the test images, the ranking of errors, and the metrics under shift; plain values."""
    everything = torch.arange(len(dataset.test))
    logits, labels = logits_of(model, dataset.test, everything, normalization)
    return {
        "aurc": risk_coverage(Examples.of(logits=logits, labels=labels)).aurc,
        "errors": {
            "test": error_ranking(model, dataset.test, everything, normalization),
            "train": error_ranking(model, dataset.train, trained[:RANKED], normalization),
        },
        "shift": shift_metrics(model, dataset.test, normalization),
    }


def error_ranking(
    model: nn.Module, images: Images, positions: Tensor, normalization: Normalization
) -> dict[str, float | None]:
    """Return how well α of stochastic passes, and 1 − confidence of one pass, rank errors above correct predictions."""
    alpha, doubt, wrong = [], [], []
    with evaluation_mode(model):
        for number, (batch, labels) in enumerate(image_batches(images, positions, normalization)):
            confidence, predicted = model(batch).cpu().double().softmax(1).max(1)  # float32 would tie at 1
            passes = sample(model, batch, samples=PASSES, seed=number).float()
            alpha.append(normalized_variance(passes).cpu())
            doubt.append(1 - confidence)
            wrong.append(predicted != labels.cpu())
    is_wrong = torch.cat(wrong).numpy()
    return {
        "alpha": auroc(torch.cat(alpha).numpy(), is_wrong),
        "confidence": auroc(torch.cat(doubt).numpy(), is_wrong),
        "mean_alpha": float(torch.cat(alpha).mean()),
    }


def shift_metrics(model: nn.Module, images: Images, normalization: Normalization) -> dict[str, list[dict[str, float]]]:
    """Return accuracy, ECE and NLL of every shift and strength on the first test images."""
    chosen = images.take(torch.arange(min(SHIFTED, len(images))))
    found: dict[str, list[dict[str, float]]] = {}
    for shift in SHIFTS:
        for strength in range(1, STRENGTHS + 1):
            part = Images(shifted(chosen.images, shift, strength), chosen.labels)
            calibration = Calibration(bins=20)
            logits, labels = logits_of(model, part, torch.arange(len(part)), normalization)
            calibration.update(logits=logits, labels=labels)
            metrics = calibration.compute()
            kept = {"accuracy": metrics.accuracy, "ece": metrics.ece, "nll": metrics.nll}
            found.setdefault(shift, []).append(kept)
    return found
