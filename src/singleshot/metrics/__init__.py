"""Calibration metrics from mergeable sums."""

from singleshot.metrics.calibration import Calibration
from singleshot.metrics.result import Bins, CalibrationResult
from singleshot.metrics.variance_histogram import VarianceBins, VarianceHistogram

__all__ = ["Bins", "Calibration", "CalibrationResult", "VarianceBins", "VarianceHistogram"]
