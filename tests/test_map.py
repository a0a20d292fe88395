"""The map in CONTRIBUTING.md, the tree and the import contract have the same packages in the same order."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "singleshot"


def entries_of_map() -> list[str]:
    """Names in the map from top to bottom; those of packages end with a slash."""
    block = re.search(r"^```\nsrc/singleshot/\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M | re.S)
    assert block is not None
    lines = [line for line in block[1].splitlines() if not line.startswith("  -- ")]
    entries = [re.fullmatch(r"  (\w+/?) +(\S.*)", line) for line in lines]
    assert all(entries), "a line of the map is a name and a description"
    return [entry[1] for entry in entries if entry]


def layers_of_contract() -> list[set[str]]:
    """Layers of the import contract from the lowest to the highest."""
    found = re.search(r"^layers = (\[.*?^\])", (ROOT / "pyproject.toml").read_text("utf-8"), re.M | re.S)
    assert found is not None
    return [{name.strip() for name in layer.split("|")} for layer in reversed(ast.literal_eval(found[1]))]


def test_map_lists_every_package_and_module_once() -> None:
    modules = {path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")}
    packages = {f"{path.parent.name}/" for path in PACKAGE.glob("*/*.py")}
    assert sorted(entries_of_map()) == sorted(modules | packages)


def test_map_has_the_order_of_the_import_contract() -> None:
    names = [entry.removesuffix("/") for entry in entries_of_map()]
    layers = layers_of_contract()
    assert len(names) == sum(map(len, layers))
    for layer in layers:
        assert {names.pop(0) for _ in layer} == layer


def test_docstring_of_every_package_is_one_sentence() -> None:
    for path in sorted(PACKAGE.rglob("__init__.py")):
        sentence = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        ends = [found.end() for found in re.finditer(r"[.!?](?=\s|$)", sentence)]
        assert ends == [len(sentence)] != [0], f"{path.relative_to(ROOT)}: {sentence!r}"
