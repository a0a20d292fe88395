"""The public names, and the time it takes to import them."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import singleshot as ss

PUBLIC: list[str] = vars(ss)["__all__"]
PACKAGES = (
    "data",
    "evaluation",
    "export",
    "grid",
    "integrations",
    "losses",
    "metrics",
    "models",
    "paper",
    "posthoc",
    "predictions",
    "reporting",
    "sampling",
    "training",
    "uncertainty",
)


def run(script: str) -> str:
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_every_public_name_loads_and_is_documented() -> None:
    assert len(PUBLIC) > 15
    for name in PUBLIC:
        assert getattr(ss, name).__doc__, name
    assert set(PUBLIC) <= set(dir(ss))
    assert not {"theory", "protocols", "ece_against_passes", "fit_on_training_set"} & set(PUBLIC)


def object_at(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_every_public_name_is_on_the_api_pages_with_an_example() -> None:
    """The examples run as doctests."""
    public = {
        id(found): f"{package.__name__}.{name}"
        for package in (ss.paper, ss.data, ss.training, ss)
        for name in vars(package)["__all__"]
        if not inspect.ismodule(found := getattr(package, name))
    }
    assert len(public) > 100
    pages = sorted((Path(__file__).parents[1] / "docs" / "api").glob("*.md"))
    shown = [path for page in pages for path in re.findall(r"^::: (\S+)$", page.read_text(), flags=re.MULTILINE)]
    adapters = [path for path in shown if path.startswith("singleshot.integrations.")]  # may need an extra
    documented = [id(object_at(path)) for path in shown if path not in adapters]
    assert len(set(documented)) == len(documented)
    assert [path for one, path in public.items() if one not in documented] == []
    assert [path for one, path in public.items() if ">>> " not in (object_at(path).__doc__ or "")] == []


def test_every_subpackage_is_an_attribute_of_a_fresh_import() -> None:
    """Each package is imported alone, so that none relies on an import by another one."""
    script = """
import sys
import singleshot
for name in sys.argv[1:]:
    before = set(sys.modules)
    package = getattr(singleshot, name)
    assert package.__name__ == f"singleshot.{name}", package
    for module in set(sys.modules) - before:
        if module.startswith("singleshot."):
            del sys.modules[module]
    for attribute in [one for one in vars(singleshot) if one in sys.argv]:
        delattr(singleshot, attribute)
print("fine")
"""
    command = [sys.executable, "-c", script, *PACKAGES]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "fine\n"


def test_import_and_help_load_no_slow_packages() -> None:
    """Checks the loaded modules rather than the time, which depends on the machine."""
    for code in ("import singleshot", "import singleshot.cli"):
        loaded = run(f"{code}\nimport sys\nprint(*sorted(sys.modules))").split()
        assert not {"torch", "numpy", "matplotlib", "sklearn"} & set(loaded)


def test_the_package_is_typed() -> None:
    assert Path(ss.__file__).with_name("py.typed").exists()
