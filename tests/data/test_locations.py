from __future__ import annotations

from pathlib import Path

import pytest

from singleshot.data.locations import decoded_root, resolve_data_root


def test_roots_from_argument_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[tuple[dict[str, str], Path | None, str]] = [
        ({"SINGLESHOT_DATA": "/a", "XDG_CACHE_HOME": "/c"}, Path("/given"), "/given"),
        ({"SINGLESHOT_DATA": "/a", "XDG_CACHE_HOME": "/c"}, None, "/a"),
        ({"SINGLESHOT_DATA": "", "XDG_CACHE_HOME": "/c"}, None, "/c/singleshot/data"),
        ({"HOME": "/h"}, None, "/h/.cache/singleshot/data"),
        ({"HOME": "/h", "SINGLESHOT_DATA": "~/x"}, None, "/h/x"),
        ({"HOME": "/h"}, Path("~/y"), "/h/y"),
    ]
    for environment, given, expected in cases:
        with monkeypatch.context() as patch:
            for variable in ("SINGLESHOT_DATA", "XDG_CACHE_HOME"):
                patch.delenv(variable, raising=False)
            for variable, value in environment.items():
                patch.setenv(variable, value)
            assert resolve_data_root(given) == Path(expected), environment
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    monkeypatch.setenv("SINGLESHOT_CACHE", "/d")
    assert decoded_root() == Path("/d")
    monkeypatch.delenv("SINGLESHOT_CACHE")
    assert decoded_root() == Path("/c/singleshot/decoded")
