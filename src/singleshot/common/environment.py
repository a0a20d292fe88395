"""Versions, revision and hardware, which are stored with every result."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from singleshot import __version__

HARDWARE = ("machine", "processor", "cores")
"""The fields that describe the machine."""


@cache
def describe_environment() -> dict[str, str | int | None]:
    """Return versions, revision and hardware."""
    packages = {name: installed_version(name) for name in ("torch", "numpy", "scikit-learn")}
    versions = {"singleshot": __version__, **packages, "python": platform.python_version()}
    hardware: dict[str, str | int] = {"machine": platform.machine(), "processor": _processor(), "cores": usable_cores()}
    return {**versions, "revision": _revision(), **hardware}


def installed_version(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    """Return the processor name, if the system reports one."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def usable_cores() -> int:
    """Return the number of cores available to this process, which a container or scheduler can limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _revision() -> str | None:
    """Return the commit of a checkout, or None for an installed package."""
    package = Path(__file__).parents[1]
    if not (package.parents[1] / ".git").exists():  # git would describe the project that contains the environment
        return None
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, cwd=package, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
