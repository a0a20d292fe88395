"""The table of docs/comparison.md has the stored outcomes, and our own column is still true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import compare_libraries
import pytest
from check_library import LIBRARIES, outcome
from compare_libraries import BEGIN, END, PAGE, RESULTS
from comparison_rows import ROWS

STORED = json.loads(RESULTS.read_text("utf-8"))
OF_THE_ENVIRONMENT = ("packages", "CPU time", "command line")


def table() -> list[list[str]]:
    text = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_every_cell_is_a_stored_outcome() -> None:
    head, _, *rows = table()
    columns = [tuple(cell.rsplit(" ", 1)) for cell in head[1:]]
    stored = {(one["library"], one["version"], one["check"]): one["outcome"] for one in STORED["outcomes"]}
    cells = {(*column, check): cell for check, *line in rows for column, cell in zip(columns, line, strict=True)}
    assert cells == stored


def test_every_library_has_every_row() -> None:
    expected = [(name, check) for name in LIBRARIES for check in ROWS]
    assert [(one["library"], one["check"]) for one in STORED["outcomes"]] == expected
    assert not [one for one in STORED["outcomes"] if one["outcome"].startswith("error")]


def test_page_names_the_date_of_the_run() -> None:
    assert STORED["date"] in PAGE.read_text("utf-8").partition(BEGIN)[0]


def test_numbers_in_the_text_are_in_the_table() -> None:
    """The remarks under the table quote it."""
    page = PAGE.read_text("utf-8")
    quoted = re.findall(r"\*\*(\d[\d.,]*)\*\*", page.partition(END)[2])
    assert quoted
    outcomes = " ".join(one["outcome"] for one in STORED["outcomes"])
    assert [number for number in quoted if number not in outcomes] == []


@pytest.mark.parametrize("check", [check for check in ROWS if not check.startswith(OF_THE_ENVIRONMENT)])
def test_our_column_is_still_true(check: str) -> None:
    [stored] = [one for one in STORED["outcomes"] if (one["library"], one["check"]) == ("singleshot", check)]
    assert outcome(LIBRARIES["singleshot"], check) == stored["outcome"]


def test_a_library_without_an_environment_is_not_guessed(tmp_path: Path) -> None:
    found = compare_libraries.run("netcal", tmp_path)
    assert {one["outcome"] for one in found} == {one["version"] for one in found} == {"not installed"}
