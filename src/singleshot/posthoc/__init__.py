"""Calibration after training: each ``fit(logits, labels)`` returns an object that maps logits to logits."""

from singleshot.posthoc.histogram import HistogramBinning
from singleshot.posthoc.isotonic import IsotonicScaling
from singleshot.posthoc.matrix import MatrixScaling
from singleshot.posthoc.protocols import case2_split, temperature_case1, temperature_case2
from singleshot.posthoc.registry import SCALINGS, load_scaling
from singleshot.posthoc.scaling import Scaling
from singleshot.posthoc.temperature import TemperatureScaling
from singleshot.posthoc.vector import VectorScaling

__all__ = [
    "SCALINGS",
    "HistogramBinning",
    "IsotonicScaling",
    "MatrixScaling",
    "Scaling",
    "TemperatureScaling",
    "VectorScaling",
    "case2_split",
    "load_scaling",
    "temperature_case1",
    "temperature_case2",
]
