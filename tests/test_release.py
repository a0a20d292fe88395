"""The wheel: its files, its metadata, its commands and its types, outside the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

import singleshot as ss

ROOT = Path(__file__).resolve().parents[1]
CONSUMER = Path(__file__).with_name("typing_consumer.py")
PROGRAM = """
import singleshot as ss, torch
model = ss.create_model("small_cnn", num_classes=3, in_channels=1)
assert ss.sample(model, torch.zeros(2, 1, 8, 8), samples=4, seed=0).shape == (4, 2, 3)
print(ss.__file__)
"""


def run(*command: str | Path, cwd: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, which borrows the dependencies of this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    borrowed = {str(Path(path)) for path in sys.path if path.endswith("site-packages")}
    (packages / "borrowed.pth").write_text("\n".join(sorted(borrowed)))
    return folder


def test_the_wheel_has_every_file_of_the_package_and_the_licence(wheel: Path) -> None:
    source = ROOT / "src"
    files = [path for path in (source / "singleshot").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        licence = archive.read(f"singleshot-{ss.__version__}.dist-info/licenses/LICENSE")
    assert packed == {path.relative_to(source).as_posix() for path in files}
    assert {"singleshot/py.typed", "singleshot/paper/published.json"} <= packed
    assert licence == (ROOT / "LICENSE").read_bytes()


def test_the_page_embeds_no_foreign_code() -> None:
    """All scripts and styles are our own; something foreign would need its licence in the wheel."""
    for path in (ROOT / "src" / "singleshot" / "reporting" / "page" / "assets").iterdir():
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"copyright|licen[cs]e|@font-face|@import|https?://", text, re.I), path


def test_version_is_the_same_everywhere(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = message_from_string(archive.read(f"singleshot-{ss.__version__}.dist-info/METADATA").decode())
    assert metadata["Version"] == ss.__version__
    citation, changelog = (ROOT / "CITATION.cff").read_text("utf-8"), (ROOT / "CHANGELOG.md").read_text("utf-8")
    version, date = re.findall(r"^## \[?([\d.]+)\]? - (\S+)$", changelog, re.M)[0]
    assert version == ss.__version__
    assert f"\nversion: {version}\ndate-released: {date}\n" in citation
    supported = re.findall(r"Python :: (3\.\d+)", str(metadata))
    assert metadata["Requires-Python"] == f">={supported[0]}"


def test_the_installed_wheel_runs(environment: Path, tmp_path: Path) -> None:
    python = environment / "bin" / "python"
    assert run(python, "-m", "singleshot", "--version", cwd=tmp_path) == f"singleshot {ss.__version__}\n"
    assert run(python, "-c", PROGRAM, cwd=tmp_path).startswith(str(environment))


def test_the_types_of_the_installed_wheel_are_found(environment: Path, tmp_path: Path) -> None:
    program = shutil.copy(CONSUMER, tmp_path)
    python = environment / "bin" / "python"
    strict = ("--strict", "--python-executable", python, "--cache-dir", tmp_path / "cache", program)
    assert "Success" in run(sys.executable, "-m", "mypy", *strict, cwd=tmp_path)


@pytest.mark.skipif(shutil.which("pyright") is None, reason="needs pyright")
def test_pyright_finds_the_types_of_the_installed_wheel(environment: Path, tmp_path: Path) -> None:
    program = shutil.copy(CONSUMER, tmp_path)
    assert "0 errors" in run("pyright", "--pythonpath", environment / "bin" / "python", program, cwd=tmp_path)
