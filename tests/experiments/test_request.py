from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singleshot.experiments.request import FILE, Request

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


@pytest.mark.parametrize("text", ["", "[]", "7", "{}", "[" * 100_000])
def test_a_file_that_is_no_request_is_damaged(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ValueError, match=f"{FILE} is damaged"):
        Request.load(tmp_path)
