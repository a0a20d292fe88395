"""Losses over one stochastic pass or T of them: each a pure function and a thin module of the same name."""

from singleshot.losses.confidence_integrated import CILoss, EntropyCILoss, ci_loss, entropy_ci_loss
from singleshot.losses.cross_entropy import (
    CrossEntropyLoss,
    FocalLoss,
    LabelSmoothingLoss,
    cross_entropy_loss,
    focal_loss,
    label_smoothing_loss,
)
from singleshot.losses.vwci import VWCILoss, vwci_loss

__all__ = [
    "CILoss",
    "CrossEntropyLoss",
    "EntropyCILoss",
    "FocalLoss",
    "LabelSmoothingLoss",
    "VWCILoss",
    "ci_loss",
    "cross_entropy_loss",
    "entropy_ci_loss",
    "focal_loss",
    "label_smoothing_loss",
    "vwci_loss",
]
