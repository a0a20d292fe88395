"""Figures: each is a function that takes ``ax=`` and draws numbers that can be had without it."""

from singleshot.report.coverage import coverage_curve
from singleshot.report.passes import PassesPoint, ece_against_passes, ece_by_passes
from singleshot.report.reliability import reliability_diagram
from singleshot.report.risk_coverage import risk_coverage_curve
from singleshot.report.variance import variance_histogram

__all__ = [
    "PassesPoint",
    "coverage_curve",
    "ece_against_passes",
    "ece_by_passes",
    "reliability_diagram",
    "risk_coverage_curve",
    "variance_histogram",
]
