"""The losses by name."""

from __future__ import annotations

from typing import Any, NamedTuple

from singleshot.common.checks import check_choice
from singleshot.common.loss_names import LossName
from singleshot.losses.adafocal import AdaFocalLoss
from singleshot.losses.batch_calibration import DCALoss, MDCALoss, MMCELoss, SoftECELoss
from singleshot.losses.cross_entropy import (
    BrierLoss,
    CILoss,
    CrossEntropyLoss,
    EntropyCILoss,
    LabelSmoothingLoss,
    MarginSmoothingLoss,
)
from singleshot.losses.focal import DualFocalLoss, FLSDLoss, FocalLoss
from singleshot.losses.terms import ClassificationLoss
from singleshot.losses.vwci import VWCILoss


class Entry(NamedTuple):
    """A loss, the parameter that sets its strength, a usual value of it, and whether it is one of a whole batch."""

    module: type[ClassificationLoss]
    parameter: str | None = None
    usual: float | None = None  # None: the default of the module
    of_batch: bool = False


LOSSES: dict[LossName, Entry] = {
    "cross_entropy": Entry(CrossEntropyLoss),
    "label_smoothing": Entry(LabelSmoothingLoss, "label_smoothing", 0.1),
    "ci": Entry(CILoss, "beta", 0.1),
    "entropy_ci": Entry(EntropyCILoss, "gamma", 0.1),
    "vwci": Entry(VWCILoss, "strength"),
    "focal": Entry(FocalLoss, "gamma", 3.0),
    "flsd": Entry(FLSDLoss),
    "dual_focal": Entry(DualFocalLoss, "gamma", 3.0),
    "adafocal": Entry(AdaFocalLoss, "gamma"),
    "mmce": Entry(MMCELoss, "penalty", of_batch=True),
    "mdca": Entry(MDCALoss, "penalty", of_batch=True),
    "dca": Entry(DCALoss, "penalty", of_batch=True),
    "soft_ece": Entry(SoftECELoss, "penalty", of_batch=True),
    "margin_smoothing": Entry(MarginSmoothingLoss, "penalty"),
    "brier": Entry(BrierLoss),
}


def list_losses() -> list[str]:
    """Return the names of the losses.

    >>> list_losses()[:3]
    ['cross_entropy', 'label_smoothing', 'ci']
    """
    return list(LOSSES)


def create_loss(name: str, strength: Any = None, **options: Any) -> ClassificationLoss:
    """Return a loss module by name.

    Args:
        name: one of `list_losses`.
        strength: value of the parameter that sets the strength of the loss, whatever its name; by default a usual one.
        **options: options of every loss, ``weight``, ``ignore_index`` and ``reduction``, or of this one, such as
            ``measure`` of vwci.

    >>> create_loss("focal", 2.0)
    FocalLoss(ignore_index=-100, reduction='mean', gamma=2.0)
    """
    check_choice("loss", name, tuple(LOSSES))
    module, parameter, usual, _ = LOSSES[name]  # type: ignore[index]
    if parameter is None:
        if strength is not None:
            raise ValueError(f"the loss {name} has no strength, got {strength!r}")
        return module(**options)
    if strength is not None:
        options[parameter] = strength
    elif usual is not None:
        options.setdefault(parameter, usual)
    return module(**options)
