"""A small trained run, shared by the tests of the page."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from singleshot.training import Recipe, train

    folder = tmp_path_factory.mktemp("runs") / "a"
    recipe = Recipe(dataset="digits", width=0.0625, train_images=60, validation=0.1, strength=1.0, epochs=2)
    train(recipe, folder)
    return folder
