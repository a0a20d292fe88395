"""Losses over one or T stochastic passes, each a pure function and an nn.Module."""

from singleshot.losses.adafocal import AdaFocalLoss, AdaptiveGamma, adafocal_loss
from singleshot.losses.batch_calibration import (
    DCALoss,
    MDCALoss,
    MMCELoss,
    SoftECELoss,
    dca_loss,
    mdca_loss,
    mmce_loss,
    soft_ece_loss,
)
from singleshot.losses.cross_entropy import (
    BrierLoss,
    CILoss,
    CrossEntropyLoss,
    EntropyCILoss,
    LabelSmoothingLoss,
    MarginSmoothingLoss,
    brier_loss,
    ci_loss,
    cross_entropy_loss,
    entropy_ci_loss,
    label_smoothing_loss,
    margin_smoothing_loss,
)
from singleshot.losses.focal import DualFocalLoss, FLSDLoss, FocalLoss, dual_focal_loss, flsd_loss, focal_loss
from singleshot.losses.gathering import gather_batch
from singleshot.losses.registry import create_loss, list_losses
from singleshot.losses.vwci import VWCILoss, vwci_loss

__all__ = [
    "AdaFocalLoss",
    "AdaptiveGamma",
    "BrierLoss",
    "CILoss",
    "CrossEntropyLoss",
    "DCALoss",
    "DualFocalLoss",
    "EntropyCILoss",
    "FLSDLoss",
    "FocalLoss",
    "LabelSmoothingLoss",
    "MDCALoss",
    "MMCELoss",
    "MarginSmoothingLoss",
    "SoftECELoss",
    "VWCILoss",
    "adafocal_loss",
    "brier_loss",
    "ci_loss",
    "create_loss",
    "cross_entropy_loss",
    "dca_loss",
    "dual_focal_loss",
    "entropy_ci_loss",
    "flsd_loss",
    "focal_loss",
    "gather_batch",
    "label_smoothing_loss",
    "list_losses",
    "margin_smoothing_loss",
    "mdca_loss",
    "mmce_loss",
    "soft_ece_loss",
    "vwci_loss",
]
