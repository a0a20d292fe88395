"""Names of classes on the page."""

from __future__ import annotations

from singleshot.report.page.labels import class_label


def test_truncated_and_blank_class_names_stay_distinct() -> None:
    names = ("x" * 300 + "a", "x" * 300 + "b", "  ", "short")
    labels = [class_label(index, names) for index in range(4)]
    assert len(set(labels)) == 4
    assert [len(label) for label in labels[:2]] == [124, 124]
    assert labels[2:] == ["'  ' (2)", "short"]
