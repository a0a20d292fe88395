from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def decoded(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a separate cache folder for each test, and no data root from the environment."""
    folder = tmp_path_factory.mktemp("decoded")
    monkeypatch.setenv("SINGLESHOT_CACHE", str(folder))
    monkeypatch.delenv("SINGLESHOT_DATA", raising=False)
    return folder
