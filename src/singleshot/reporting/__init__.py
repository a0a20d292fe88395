"""Figures of calibration results and the HTML report page."""

from singleshot.reporting.figures import plot_coverage, plot_reliability, plot_risk_coverage, plot_variance

__all__ = [
    "plot_coverage",
    "plot_reliability",
    "plot_risk_coverage",
    "plot_variance",
]
