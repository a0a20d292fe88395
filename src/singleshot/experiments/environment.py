"""Where a number was measured."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version


def describe_environment() -> dict[str, str | int]:
    """Versions and hardware, to stand beside every stored result."""
    versions = {name: version(name) for name in ("singleshot", "torch", "numpy", "scikit-learn")}
    return {
        **versions,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count() or 1,
    }
