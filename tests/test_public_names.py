"""The names the world may rely on, and the time it takes to have them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import singleshot as ss

PUBLIC: list[str] = vars(ss)["__all__"]


def test_every_public_name_loads_and_is_documented() -> None:
    assert len(PUBLIC) > 15
    for name in PUBLIC:
        assert getattr(ss, name).__doc__, name
    assert set(PUBLIC) <= set(dir(ss))


def test_importing_the_package_and_asking_for_help_load_nothing_slow() -> None:
    """Slow imports make slow commands; which modules are loaded can be asserted on any machine, a time cannot."""
    for code in ("import singleshot", "import singleshot.cli"):
        script = f"{code}\nimport sys\nprint(*sorted(sys.modules))"
        loaded = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout.split()
        assert not {"torch", "numpy", "matplotlib", "sklearn"} & set(loaded)


def test_the_package_is_typed() -> None:
    assert Path(ss.__file__).with_name("py.typed").exists()
