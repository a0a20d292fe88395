"""Calibration after training: each ``fit(logits, labels)`` returns an ``nn.Module`` that maps logits to logits."""

from singleshot.posthoc.frequencies import HistogramBinning, IsotonicScaling
from singleshot.posthoc.linear import MatrixScaling, VectorScaling
from singleshot.posthoc.registry import SCALINGS, load_scaling
from singleshot.posthoc.scaling import Scaling
from singleshot.posthoc.temperature import TemperatureScaling

__all__ = [
    "SCALINGS",
    "HistogramBinning",
    "IsotonicScaling",
    "MatrixScaling",
    "Scaling",
    "TemperatureScaling",
    "VectorScaling",
    "load_scaling",
]
