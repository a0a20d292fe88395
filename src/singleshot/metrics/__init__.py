"""Calibration metrics from mergeable states, with confidence intervals and significance tests from examples."""

from singleshot.metrics.calibration import Bins, Calibration, CalibrationResult
from singleshot.metrics.estimates import adaptive_ece, debiased_ece, smooth_ece
from singleshot.metrics.examples import ExampleGathering, Examples, ScoredBatch
from singleshot.metrics.intervals import Interval, bootstrap, wilson_interval
from singleshot.metrics.multilabel import MultiLabelCalibration, MultiLabelResult
from singleshot.metrics.selective import RiskCoverage, Threshold, risk_coverage, threshold_for_accuracy
from singleshot.metrics.significance import Comparison, ConsistencyTest, consistency_test, paired_bootstrap
from singleshot.metrics.variance_histogram import VarianceBins, VarianceHistogram

__all__ = [
    "Bins",
    "Calibration",
    "CalibrationResult",
    "Comparison",
    "ConsistencyTest",
    "ExampleGathering",
    "Examples",
    "Interval",
    "MultiLabelCalibration",
    "MultiLabelResult",
    "RiskCoverage",
    "ScoredBatch",
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
