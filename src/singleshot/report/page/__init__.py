"""A self-contained HTML page about the calibration of one or more models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from singleshot.common.files import write_text
from singleshot.report.page.content import page_data
from singleshot.report.page.model_report import ModelReport, file_report, run_report
from singleshot.report.page.rendering import render

__all__ = ["ModelReport", "file_report", "page_data", "render", "run_report", "write_page"]


def write_page(reports: Iterable[ModelReport], path: Path, **options: Any) -> dict[str, Any]:
    """Write the page about these models to an .html file and return its data; see `page_data` for the options."""
    data = page_data(reports, **options)
    write_text(path, render(data))
    return data
