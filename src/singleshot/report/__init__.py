"""Figures: each is a function that takes ``ax=`` and draws numbers that can be had without it."""

from singleshot.report.figures import coverage_curve, reliability_diagram, risk_coverage_curve, variance_histogram

__all__ = [
    "coverage_curve",
    "reliability_diagram",
    "risk_coverage_curve",
    "variance_histogram",
]
