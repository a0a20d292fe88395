"""Where a number was measured."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

HARDWARE = ("machine", "processor", "cores")
"""What of an environment is the machine's."""


@cache
def describe_environment() -> dict[str, str | int | None]:
    """Versions, revision and hardware, to stand beside every stored result."""
    versions = {name: version(name) for name in ("singleshot", "torch", "numpy", "scikit-learn")}
    hardware: dict[str, str | int] = {"machine": platform.machine(), "processor": _processor(), "cores": usable_cores()}
    return {**versions, "python": platform.python_version(), "revision": _revision(), **hardware}


def _processor() -> str:
    """The processor's own name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def usable_cores() -> int:
    """The cores this process may run on, which a container or a scheduler can limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _revision() -> str | None:
    """The commit of a checkout; an installed package has its version alone."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
