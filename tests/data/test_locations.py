from __future__ import annotations

from pathlib import Path

import pytest

from singleshot.data.locations import candidate_folders, data_root, decoded_root, missing_dataset


@pytest.mark.parametrize(
    ("environment", "given", "expected"),
    [
        ({"SINGLESHOT_DATA": "/a", "XDG_CACHE_HOME": "/c"}, Path("/given"), "/given"),
        ({"SINGLESHOT_DATA": "/a", "XDG_CACHE_HOME": "/c"}, None, "/a"),
        ({"SINGLESHOT_DATA": "", "XDG_CACHE_HOME": "/c"}, None, "/c/singleshot/data"),
        ({"HOME": "/h"}, None, "/h/.cache/singleshot/data"),
        ({"HOME": "/h", "SINGLESHOT_DATA": "~/x"}, None, "/h/x"),
        ({"HOME": "/h"}, Path("~/y"), "/h/y"),
    ],
)
def test_the_data_root(
    environment: dict[str, str], given: Path | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("SINGLESHOT_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    assert data_root(given) == Path(expected)


def test_the_decoded_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    monkeypatch.setenv("SINGLESHOT_CACHE", "/d")
    assert decoded_root() == Path("/d")
    monkeypatch.delenv("SINGLESHOT_CACHE")
    assert decoded_root() == Path("/c/singleshot/decoded")


def test_what_is_missing_is_said_with_every_place_and_the_way_out() -> None:
    folders = candidate_folders("fashion_mnist", Path("/r"))
    assert Path("/usr/share/datasets/fashion-mnist") in folders
    message = str(missing_dataset("fashion_mnist", folders))
    assert all(str(folder) in message for folder in folders)
    assert "singleshot data fetch fashion_mnist" in message
