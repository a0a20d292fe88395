"""Damaged JSON and YAML: saved states, scalings, recipes and runs are refused with their name, or read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch

import singleshot as ss
from singleshot.posthoc import load_scaling
from singleshot.training.recipe import Recipe
from singleshot.training.recipe_file import read_recipe_values, recipe_text
from singleshot.training.run import Run, RunInfo
from torture.mutation import mutated
from torture.tally import Tally, refused_with

CASES = 60
SNIPPETS: tuple[bytes, ...] = (
    b"17:30:45",
    b"017",
    b"[" * 2000,
    b"{" * 500,
    b"&a *a",
    b"!!python/object/apply:os.system [x]",
    b"1e999",
)
SNIPPETS += (b'"\\ud800"', b"\xff\xfe", b"-0", b"null", b"9" * 400, b"<<: *x", b"\x00", b"? :", b"- - -")


def damaged(data: bytes, random: Random) -> bytes:
    """Mutate the bytes, or put something treacherous in the place of a value."""
    if random.random() < 0.5:
        return mutated(data, random)[1]
    lines = data.split(b"\n")
    place = random.randrange(len(lines))
    name = lines[place].partition(b":")[0]
    lines[place] = name + b": " + random.choice(SNIPPETS)
    return b"\n".join(lines)


def damaged_documents(tally: Tally) -> None:
    """Damage a document of each kind and read it."""
    calibration = ss.Calibration(bins=5)
    calibration.update(probs=torch.tensor([[0.9, 0.1], [0.3, 0.7]]), labels=torch.tensor([0, 0]))
    calibration.save(tally.folder / "state.json")
    ss.VectorScaling([1.0, 2.0], [0.5, 0.25]).save(tally.folder / "scaling.json")
    (tally.folder / "recipe.yaml").write_text(recipe_text(Recipe().resolved()))
    run = Run(tally.folder / "run", Recipe().resolved(), RunInfo(("a", "b"), 1, (0.5,), (0.2,), (2, 2), {}))
    run.create()
    readers: list[tuple[Path, Callable[[Path], Any]]] = [
        (tally.folder / "state.json", ss.Calibration.load),
        (tally.folder / "scaling.json", load_scaling),
        (tally.folder / "recipe.yaml", read_recipe_values),
        (run.folder / "recipe.yaml", lambda path: Run.open(path.parent)),
        (run.folder / "run.json", lambda path: Run.open(path.parent)),
    ]
    originals = {path: path.read_bytes() for path, _ in readers}
    for _ in range(CASES):
        path, read = tally.random.choice(readers)
        content = damaged(originals[path], tally.random)
        path.write_bytes(content)
        with tally.case(f"{path.name}: {content[:3000]!r}"):
            try:
                read(path)
            except Exception as error:
                refused_with(error, path.name)
        path.write_bytes(originals[path])
