"""The names of the losses. Imports no torch, so that the command line knows them without it."""

from typing import Literal

LossName = Literal[
    "cross_entropy",
    "label_smoothing",
    "ci",
    "entropy_ci",
    "vwci",
    "focal",
    "flsd",
    "dual_focal",
    "adafocal",
    "mmce",
    "mdca",
    "dca",
    "soft_ece",
    "margin_smoothing",
    "brier",
]
