"""``singleshot doctor``, also in broken environments."""

from __future__ import annotations

import importlib.util
import json
import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pytest
import torch

import singleshot as ss
from singleshot.cli.main import main
from singleshot.common import environment


def test_doctor_reports_versions_folders_and_datasets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = tmp_path / "data" / "cifar-100-binary"
    batches.mkdir(parents=True)
    (batches / "train.bin").touch()
    monkeypatch.setenv("SINGLESHOT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SINGLESHOT_CACHE", str(tmp_path / "occupied" / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "occupied").touch()
    main(["doctor", "--json"])
    facts = json.loads(capsys.readouterr().out)
    assert (facts["singleshot"], facts["python"]) == (ss.__version__, platform.python_version())
    assert (facts["torch"], facts["numpy"]) == (version("torch"), np.__version__)
    assert (facts["threads"], facts["omp_num_threads"]) == (torch.get_num_threads(), "1")
    assert facts["devices"][0] == "cpu"
    assert set(facts["extras"]["export"]) == {"onnx", "onnxruntime", "onnxscript"}
    assert "dev" not in facts["extras"]
    assert facts["datasets"]["cifar100"] == str(batches)
    assert "tiny_imagenet" not in facts["datasets"]
    assert facts["data_root"] == {"path": str(tmp_path / "data"), "exists": True, "writable": True}
    assert facts["cache"] == {"path": str(tmp_path / "occupied" / "cache"), "exists": False, "writable": False}

    main(["doctor"])
    lines = {line[:14].strip(): line[14:] for line in capsys.readouterr().out.splitlines()}
    assert lines["singleshot"].startswith(ss.__version__)
    assert lines["torch"] == version("torch")
    assert lines["cache"] == f"{tmp_path / 'occupied' / 'cache'} (missing, not writable)"


def test_doctor_works_without_torch_and_extras(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fake_version(package: str) -> str:
        if package in {"torch", "onnx"}:
            raise PackageNotFoundError(package)
        return "1.0"

    monkeypatch.setenv("SINGLESHOT_DATA", str(tmp_path / "a\x1b[2J"))
    monkeypatch.setattr(environment, "version", fake_version)
    monkeypatch.setitem(sys.modules, "torch", None)  # import torch raises ImportError
    environment.describe_environment.cache_clear()
    try:
        main(["doctor"])
    finally:
        environment.describe_environment.cache_clear()
    lines = {line[:14].strip(): line[14:] for line in capsys.readouterr().out.splitlines()}
    assert lines["torch"] == "not installed"
    assert lines["devices"].startswith("torch does not work: ModuleNotFoundError")
    assert lines["not installed"] == "onnx"
    assert lines["data root"] == rf"{tmp_path}/a\x1b[2J (missing, writable)"


def test_the_revision_is_not_that_of_a_project_with_the_package_in_its_environment(tmp_path: Path) -> None:
    installed = tmp_path / ".venv" / "lib" / "python3" / "site-packages" / "singleshot" / "common" / "environment.py"
    checkout = tmp_path / "src" / "singleshot" / "common" / "environment.py"
    for command in ("init -q", "-c user.name=a -c user.email=a commit -q --allow-empty -m first"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    revisions = []
    for path in (installed, checkout):
        path.parent.mkdir(parents=True)
        shutil.copy(environment.__file__, path)
        spec = importlib.util.spec_from_file_location("copied", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        revisions.append(module.describe_environment()["revision"])
    assert revisions[0] is None
    assert revisions[1]
