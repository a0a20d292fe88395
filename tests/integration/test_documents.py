"""The snippets of the README and the guides run in order, links are valid, and stored results are up to date."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
NEEDS = {
    "huggingface.md": ("transformers", "accelerate"),
    "lightning.md": ("lightning",),
    "skorch.md": ("skorch",),
    "torchmetrics.md": ("torchmetrics",),
}
"""Packages of extras that a page needs; all of them are part of the extra dev."""
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning", "ignore::UserWarning:lightning")  # of Lightning itself
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_python_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in NEEDS.get(page.name, ()):
        pytest.importorskip(package)
    if page.name == "plain-loop.md" and not FASHION_MNIST.exists():
        pytest.skip("needs Fashion-MNIST: apt-get install dataset-fashion-mnist")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    mpl.use("Agg")
    namespace: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), namespace)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "sh")], ids=lambda page: page.name)
def test_shell_snippets_run(page: Path, tmp_path: Path) -> None:
    """Commands run as shown, except make and pip: a dry run, since they would start these tests or an installation."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for command in "".join(blocks(page, "sh")).splitlines():
        where = tmp_path
        if command.startswith("make "):
            command, where = command.replace("make ", "make --dry-run "), ROOT  # noqa: PLW2901
        elif command.startswith("python docs/"):
            command = command.replace("docs/", f"{ROOT}/docs/")  # noqa: PLW2901
        elif command.startswith("pip install "):
            dry_run = f"{sys.executable} -m pip install --dry-run --no-deps --no-build-isolation "
            command = command.replace("pip install ", dry_run)  # noqa: PLW2901
            where = ROOT
        done = subprocess.run(
            ["bash", "-c", command], cwd=where, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    if page.name == "predictions.md":
        assert {"before.png", "before-and-after.png", "temperature.json", "fixed.npz"} <= {
            path.name for path in tmp_path.iterdir()
        }
        before = json.loads((tmp_path / "before.json").read_text())
        (quoted,) = (block for block in blocks(page, "text") if block.startswith("Miscalibrated: "))
        expected = f"{before['verdict']['badge']}: {' '.join(before['verdict']['sentences'])}"
        assert " ".join(quoted.split()).lower() == expected.lower()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_are_valid(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in link:
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    """Anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_pages_show_the_stored_results() -> None:
    spec = importlib.util.spec_from_file_location("build_docs", ROOT / "docs" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    assert set(build.GENERATED) == {ROOT / "README.md", ROOT / "docs" / "results" / "quickstart.md"}
    for path in build.GENERATED:
        assert build.page_with_table(path) == path.read_text(encoding="utf-8"), "run `make docs`"
    assert "± " in build.quickstart_table()
