"""Names on the page: unique, and distinct after truncation."""

from __future__ import annotations

from pathlib import Path

from singleshot.report.page.text import class_label, unique_names


def test_truncated_and_blank_class_names_stay_distinct() -> None:
    names = ("x" * 300 + "a", "x" * 300 + "b", "  ", "short")
    labels = [class_label(index, names) for index in range(4)]
    assert len(set(labels)) == 4
    assert [len(label) for label in labels[:2]] == [120, 120]
    assert labels[2:] == ["'  ' (2)", "short"]


def test_names_of_sources_are_unique() -> None:
    paths = [Path("a.npz"), Path("a.npz"), Path("a.npz"), Path("a.npz (2)")]
    assert unique_names(paths) == ["a.npz", "a.npz (2)", "a.npz (3)", "a.npz (2) (2)"]
    assert unique_names([Path(), Path("/")]) == [".", "/"]
