"""A self-contained HTML page about the calibration of one or more models."""

from singleshot.reporting.page.content import page_data
from singleshot.reporting.page.model_report import ModelReport, file_report, run_report
from singleshot.reporting.page.rendering import render, write_page

__all__ = ["ModelReport", "file_report", "page_data", "render", "run_report", "write_page"]
