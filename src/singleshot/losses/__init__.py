"""Losses over one or T stochastic passes, each a pure function and an nn.Module."""

from singleshot.losses.cross_entropy import (
    CILoss,
    CrossEntropyLoss,
    EntropyCILoss,
    FocalLoss,
    LabelSmoothingLoss,
    ci_loss,
    cross_entropy_loss,
    entropy_ci_loss,
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
