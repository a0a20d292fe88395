from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singleshot.paper.request import FILE, Request

REQUEST = Request(("table1", "fig2"), "digits", ("resnet18",), seeds=2, scale="small")


def test_what_was_asked_for_is_there_again(tmp_path: Path) -> None:
    for request in (REQUEST, Request(("table3",))):
        request.save(tmp_path)
        assert request.is_saved(tmp_path)
        assert Request.load(tmp_path) == request


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": 5},
        {"dataset": ["digits"]},
        {"models": "resnet18"},
        {"models": [["resnet18"]]},
        {"exhibits": "table1"},
        {"exhibits": [{}]},
        {"seeds": "3"},
        {"seeds": None},
        {"scale": ["small"]},
        {"magic": 7},
    ],
    ids=str,
)
def test_a_file_with_something_of_another_kind_is_damaged(change: dict[str, Any], tmp_path: Path) -> None:
    REQUEST.save(tmp_path)
    path = tmp_path / FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=rf"{FILE} is damaged \(.*{next(iter(change))}.*; the command that made it"):
        Request.load(tmp_path)


def test_a_file_that_lacks_something_says_what(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"a": 1}')
    with pytest.raises(ValueError, match=rf"{FILE} is damaged \(exhibits is missing\)"):
        Request.load(tmp_path)


def test_a_file_in_place_of_the_folder_holds_no_grid(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="file holds no grid"):
        Request.load(tmp_path / "file")


def test_a_folder_is_named_by_its_whole_path_and_a_name_that_is_none_is_left_to_be_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "birds").mkdir()
    monkeypatch.chdir(tmp_path)
    found = {name: Request(("fig2",), name).grids()[0].bases[0].dataset for name in ("digits", "birds", "digit", "a/b")}
    assert found == {
        "digits": "digits",
        "birds": str(tmp_path / "birds"),
        "digit": "digit",
        "a/b": str(tmp_path / "a/b"),
    }
    with pytest.raises(ValueError, match="dataset must be a name or a folder"):
        Request(("fig2",), "").grids()


@pytest.mark.parametrize("text", ["", "[]", "7", "{}", "[" * 100_000])
def test_a_file_that_is_no_request_is_damaged(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ValueError, match=f"{FILE} is damaged"):
        Request.load(tmp_path)
