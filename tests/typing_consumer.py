"""A typed program that uses the package. mypy and pyright check it against the installed wheel; it is never run."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import torch
from torch import Tensor, nn
from typing_extensions import assert_type

import singleshot as ss
from singleshot.metrics import CalibrationResult
from singleshot.posthoc import TemperatureScaling


def train_step(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    logits = ss.sample(model, images, samples=5, gradient_passes=1)
    assert_type(logits, Tensor)
    assert_type(ss.normalized_variance(logits, measure="total_variation"), Tensor)
    assert_type(ss.VWCILoss(measure="bhattacharyya"), ss.VWCILoss)
    return ss.vwci_loss(logits, labels)


def evaluate(logits: Tensor, labels: Tensor) -> float:
    calibration = ss.Calibration(bins=20)
    calibration.update(logits=logits, labels=labels)
    result = calibration.compute()
    assert_type(result, CalibrationResult)
    scaling = ss.TemperatureScaling.fit(logits, labels)
    assert_type(scaling, TemperatureScaling)
    assert_type(scaling.temperature, float)
    return result.ece


def build() -> nn.Module:
    model = ss.create_model("resnet18", num_classes=10, width=0.25)
    assert_type(model, nn.Module)
    with ss.stochastic(model):
        model(torch.zeros(2, 3, 32, 32))
    assert_type(ss.list_models(), list[str])
    return model


def wrong(logits: Tensor, labels: Tensor) -> None:
    ss.Calibration(bins="20")  # type: ignore[arg-type]
    ss.vwci_loss(logits)  # type: ignore[call-arg]
    print(ss.no_such_name)  # type: ignore[attr-defined]
