"""``singleshot doctor``: versions, devices and folders, for a report of a problem."""

from __future__ import annotations

import json
import os
import platform
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

from singleshot.cli.options import AsJson
from singleshot.common.environment import describe_environment, installed_version
from singleshot.common.files import check_writable
from singleshot.common.text import printable

FOR_DEVELOPERS = ("bench", "dev", "docs", "fuzz", "release")
"""Extras that no command needs."""


def doctor(as_json: AsJson = False) -> None:
    """Print versions, threads, devices, data sets and folders. Paste the output into an issue report.

    It changes nothing, downloads nothing, and also works if torch cannot be imported.

    Example: singleshot doctor

    Args:
        as_json: print the same as JSON.
    """
    from singleshot.data.locations import decoded_root, resolve_data_root

    root = resolve_data_root()
    facts: dict[str, Any] = {
        **describe_environment(),
        "platform": platform.platform(),
        **_torch_facts(),
        "extras": _extras(),
        "data_root": _folder(root),
        "datasets": _datasets(root),
        "cache": _folder(decoded_root()),
    }
    print(json.dumps(facts, indent=2) if as_json else printable("\n".join(_lines(facts)), keep="\n"))


def _torch_facts() -> dict[str, Any]:
    """Return the threads and devices of torch, or the reason why it cannot be imported."""
    facts: dict[str, Any] = {"omp_num_threads": os.environ.get("OMP_NUM_THREADS")}
    try:
        import torch

        devices = ["cpu"] + (["mps"] if torch.backends.mps.is_available() else [])
        devices += [f"cuda:{index} ({torch.cuda.get_device_name(index)})" for index in range(torch.cuda.device_count())]
    except Exception as error:  # a broken installation, which this command is meant to show
        return {**facts, "threads": None, "devices": [], "torch_error": f"{type(error).__name__}: {error}"}
    return {**facts, "threads": torch.get_num_threads(), "devices": devices, "torch_error": None}


def _extras() -> dict[str, dict[str, str | None]]:
    """Return the packages of each extra and their versions, None if a package is not installed."""
    try:
        required = requires("singleshot") or []
    except PackageNotFoundError:  # imported from a checkout that is not installed
        required = []
    extras: dict[str, dict[str, str | None]] = {}
    for line in required:
        found = re.match(r"""([\w.-]+)[^;]*;.*extra == ['"](\w+)['"]""", line)
        if found and found[2] not in FOR_DEVELOPERS:
            extras.setdefault(found[2], {})[found[1]] = installed_version(found[1])
    return extras


def _folder(path: Path) -> dict[str, Any]:
    facts = {"path": str(path), "exists": False, "writable": False}
    with suppress(OSError, ValueError):  # OSError: below a folder that cannot be read
        facts["exists"] = path.is_dir()
        check_writable(path / "file")
        facts["writable"] = True
    return facts


def _datasets(root: Path) -> dict[str, str]:
    """Return the folders of the data sets that are there."""
    from singleshot.cli.data import dataset_rows

    try:
        return {row["name"]: row["folder"] for row in dataset_rows(root) if row["folder"] is not None}
    except OSError:
        return {}


def _lines(facts: dict[str, Any]) -> list[str]:
    def folder(one: dict[str, Any]) -> str:
        return (
            f"{one['path']} ({'exists' if one['exists'] else 'missing'}, {'' if one['writable'] else 'not '}writable)"
        )

    packages = [package for extra in facts["extras"].values() for package in extra.items()]
    shown = {
        "singleshot": f"{facts['singleshot']} (revision {facts['revision'] or 'unknown'})",
        **{name: facts[name] or "not installed" for name in ("python", "torch", "numpy", "scikit-learn")},
        "machine": f"{facts['platform']}, {facts['processor']}, {facts['cores']} cores",
        "threads": f"{facts['threads']} in torch, OMP_NUM_THREADS={facts['omp_num_threads'] or ''}",
        "devices": ", ".join(facts["devices"]),
        "optional": ", ".join(f"{name} {version}" for name, version in packages if version) or "none",
        "not installed": ", ".join(name for name, version in packages if not version) or "none",
        "data root": folder(facts["data_root"]),
        "data sets": ", ".join(facts["datasets"]),
        "cache": folder(facts["cache"]),
    }
    if facts["torch_error"]:
        shown["devices"] = f"torch does not work: {facts['torch_error']}"
    return [f"{name:<14}{value}" for name, value in shown.items()]
