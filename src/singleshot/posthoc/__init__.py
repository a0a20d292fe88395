"""Calibration after training: each ``fit(logits, labels)`` returns an object that maps logits to logits."""

from singleshot.posthoc.temperature import TemperatureScaling

__all__ = ["TemperatureScaling"]
