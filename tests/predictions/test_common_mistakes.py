"""Mistakes that newcomers make with their files: the message says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from predictions.files import refusal
from singleshot.predictions import read_predictions


def written(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "a.csv"
    path.write_text(text, encoding=encoding)
    return path


@pytest.mark.parametrize(
    "table",
    ["label,predicted,confidence\na,a,0.9\nb,a,1\n", "label,prob_spam\n0,0.2\n1,0.9\n", "confidence,correct\n0.9,1\n"],
)
def test_normalize_refuses_single_scores_that_are_no_percentages(table: str, tmp_path: Path) -> None:
    message = refusal(written(tmp_path, table), normalize=True)
    assert "no score is above 1: these are not percentages; leave out --normalize" in message


def test_percent_signs_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, "label,predicted,confidence\na,a,99.4%\nb,a, 0.3 %\nb,b,0.5\n")
    assert read_predictions(path).load().scores.ravel().tolist() == [0.994, 0.003, 0.5]
    assert "leave out --normalize" in refusal(path, normalize=True)
    path = written(tmp_path, 'label,prob_a,prob_b\na,"99,4%",0.6 %\nb,25%,75%\n')
    assert read_predictions(path).load().scores.tolist() == [[0.994, 0.006], [0.25, 0.75]]
    assert read_predictions(path, normalize=True).load().scores.tolist() == [[0.994, 0.006], [0.25, 0.75]]
    message = refusal(written(tmp_path, "label,prob_a,prob_b\na,%,0.6\n"))
    assert "line 2, column 'prob_a': '%' is not a number" in message


def test_labels_that_are_empty_or_nearly_right(tmp_path: Path) -> None:
    start = "label,prob_cat,prob_dog\ncat,0.5,0.5\n"
    assert refusal(written(tmp_path, f"{start},0.5,0.5\n")).endswith("a.csv: the label in line 3 is empty")
    message = refusal(written(tmp_path, f"{start}Cat,0.5,0.5\n"))
    assert message.endswith(
        "unknown label 'Cat' in line 3; the classes are cat, dog; 'Cat' and 'cat' differ in upper and lower case"
    )
    message = refusal(written(tmp_path, f"{start}eel,0.5,0.5\nfox,0.5,0.5\n"))
    assert message.endswith("unknown labels 'eel', 'fox', first in line 3; the classes are cat, dog")
    for table in ("label,prob_spam\n0,0.2\n,0.9\n", "label,predicted,confidence\na,a,0.9\n,b,0.8\n"):
        assert "the label in line 3 is empty" in refusal(written(tmp_path, table))
    message = refusal(written(tmp_path, "label,predicted,confidence\na,a,0.9\nb,,0.8\n"))
    assert "the predicted class in line 3 is empty" in message


@pytest.mark.parametrize("rows", [1, 3000])
def test_text_that_is_not_utf_8_has_its_line(rows: int, tmp_path: Path) -> None:
    text = (
        "label,prob_öl,prob_gas\n" if rows == 1 else "label,prob_oil,prob_gas\n" + "oil,0.5,0.5\n" * rows + "Öl,1,0\n"
    )
    message = refusal(written(tmp_path, text, "latin-1"))
    byte, line = ("0xf6", 1) if rows == 1 else ("0xd6", rows + 2)
    assert message.endswith(f"a.csv, line {line}: not UTF-8 text (byte {byte}); save the file as CSV UTF-8")


def test_scores_that_no_column_has(tmp_path: Path) -> None:
    path = written(tmp_path, "label,prob_a,prob_b\na,0.5,0.5\n")
    for kind in (None, "probs"):
        message = refusal(path, scores="zzz", kind=kind)
        assert message.endswith("a.csv has no column 'zzz', and none that starts with it; found label, prob_a, prob_b")
    path = written(tmp_path, "label,predicted,sure\na,a,0.5\n")
    assert "has no 'zzz'; found label, predicted, sure" in refusal(path, scores="zzz", kind="confidence")


def test_rows_that_sum_to_100_look_like_percentages(tmp_path: Path) -> None:
    path = written(tmp_path, "label,prob_a,prob_b\na,99.5,0.5\nb,20,79.9\n")
    assert refusal(path).endswith(
        "; these look like percentages: --normalize divides each row by its sum (normalize=True in Python)"
    )
    assert "look like percentages" not in refusal(written(tmp_path, "label,prob_a,prob_b\na,99.5,0.5\nb,2,7\n"))


def test_a_missing_confidence_names_no_class(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, "label,predicted,confidence\na,a,0.5\nb,b,nan\n"))
    assert "a confidence or probability must lie in [0, 1]; line 3 has nan;" in message


def test_decimal_commas_between_commas(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, "label,prob_a,prob_b,prob_c\na,0,7,0,2,0,1\n"))
    assert message.endswith(
        "line 2: 7 cells, but 4 headings; if the numbers have decimal commas, export the table with semicolons"
    )
    assert "semicolons" not in refusal(written(tmp_path, "label,prob_a,prob_b,prob_c\na,0.7\n"))
