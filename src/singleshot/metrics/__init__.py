"""Calibration metrics from mergeable sums, and from examples where those metrics are to know their own error."""

from singleshot.metrics.bootstrap import Interval, bootstrap
from singleshot.metrics.calibration import Calibration
from singleshot.metrics.comparison import Comparison, paired_bootstrap
from singleshot.metrics.consistency import ConsistencyTest, consistency_test
from singleshot.metrics.estimates import adaptive_ece, debiased_ece, smooth_ece
from singleshot.metrics.examples import ExampleGathering, Examples
from singleshot.metrics.result import Bins, CalibrationResult
from singleshot.metrics.selective import RiskCoverage, Threshold, risk_coverage, threshold_for_accuracy
from singleshot.metrics.variance_histogram import VarianceBins, VarianceHistogram
from singleshot.metrics.wilson import wilson_interval

__all__ = [
    "Bins",
    "Calibration",
    "CalibrationResult",
    "Comparison",
    "ConsistencyTest",
    "ExampleGathering",
    "Examples",
    "Interval",
    "RiskCoverage",
    "Threshold",
    "VarianceBins",
    "VarianceHistogram",
    "adaptive_ece",
    "bootstrap",
    "consistency_test",
    "debiased_ece",
    "paired_bootstrap",
    "risk_coverage",
    "smooth_ece",
    "threshold_for_accuracy",
    "wilson_interval",
]
