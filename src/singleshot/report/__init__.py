"""Figures: each is a function that takes ``ax=`` and draws numbers that can be had without it."""

from singleshot.report.reliability import reliability_diagram

__all__ = ["reliability_diagram"]
