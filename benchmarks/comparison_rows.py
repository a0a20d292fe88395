"""How a row of docs/comparison.md is registered, and the predictions that the rows share.

A feature is reported as missing ("no") only if the library's source defines no class and no function whose name matches
the pattern of the row.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from library_adapters import Library, Scores, softmax

TEMPERATURE = "temperature_?scal"
Row = Callable[[Library], str]
ROWS: dict[str, Row] = {}


def row(title: str, *, needs: str = "", pattern: str = "", missing: str = "no") -> Callable[[Row], Row]:
    """Register a row. A library without the method that it needs must not define a name that matches the pattern."""

    def register(run: Row) -> Row:
        def cell(library: Library) -> str:
            if needs and not hasattr(library, needs):
                check_absent(library, pattern)
                return missing
            return run(library)

        ROWS[title] = cell
        return run

    return register


def check_absent(library: Library, pattern: str) -> None:
    spec = importlib.util.find_spec(library.package) if library.package not in sys.modules else None
    folders = spec.submodule_search_locations if spec else sys.modules[library.package].__path__
    defined = re.compile(rf"^ *(?:class|def) (\w*(?:{pattern})\w*)", re.M | re.I)
    for path in (path for folder in folders or () for path in Path(folder).rglob("*.py")):
        if found := defined.findall(path.read_text("utf-8", errors="replace")):
            raise AssertionError(f"{path.name} defines {found[0]}: this feature needs a check")


def compared(found: float, right: float, tolerance: float = 2e-6) -> str:
    shown = f"{found:.3f}" if abs(found) > 1e-3 else f"{found:.1g}"
    return shown if abs(found - right) <= tolerance * max(1, abs(right)) else f"wrong: {shown}"


def ece_of(probs: Scores, labels: Scores) -> float:
    confidence, right = probs.max(1).astype(float), probs.argmax(1) == labels
    index = np.ceil(confidence * 15).astype(int) - 1
    return float(sum(abs((confidence - right)[index == one].sum()) for one in range(15)) / len(labels))


@cache
def predictions(examples: int, classes: int, scale: float = 2.0) -> tuple[Scores, Scores]:
    """Logits in float32, and labels drawn from their softmax."""
    generator = np.random.default_rng(0)
    logits = (scale * generator.normal(size=(examples, classes))).astype(np.float32)
    ranks = softmax(logits.astype(float)).cumsum(1) < generator.random((examples, 1))
    return logits, np.minimum(ranks.sum(1), classes - 1)
