"""Figures: each is a function that takes ``ax=`` and draws numbers that can be had without it."""

from singleshot.report.figures import plot_coverage, plot_reliability, plot_risk_coverage, plot_variance

__all__ = [
    "plot_coverage",
    "plot_reliability",
    "plot_risk_coverage",
    "plot_variance",
]
