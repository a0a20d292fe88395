"""One self-contained HTML page that answers: can I trust these scores, where not, and what threshold should I use?"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from singleshot.report.page.data import page_data
from singleshot.report.page.rendering import render, write_html
from singleshot.report.page.subject import Subject, subject_of_file, unique_names

__all__ = ["Subject", "page_data", "render", "subject_of_file", "unique_names", "write_page"]


def write_page(
    subjects: Iterable[Subject], path: Path, *, title: str, replicates: int | None = None, command: str | None = None
) -> dict[str, Any]:
    """Write the page of these subjects to an .html file, and return the data that is in it."""
    data = page_data(subjects, title=title, replicates=replicates, command=command)
    write_html(data, path)
    return data
