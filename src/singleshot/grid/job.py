"""One run of a grid: the recipe it is made from, and the name that follows from it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from singleshot.paper.methods import method_behind, method_of
from singleshot.training.recipe import RENAMED, Recipe
from singleshot.training.recipe_file import checked_values

PLACE = ("device", "memory", "compile", "channels_last", "start_from")
"""Fields that say where and how fast a run is computed, not what: they are no part of its name."""


@dataclass(frozen=True)
class Job:
    """A run to be made, alone or from the weights of another."""

    recipe: Recipe
    start: Recipe | None = None  # of the run whose trained weights it takes

    @cached_property
    def key(self) -> str:
        """The hash of everything that decides the result and is not as `Recipe` has it by default.

        So a field that is added to recipes later, with a default that means what was done before, changes no key.
        """
        deciding = [_deciding(recipe) for recipe in (self.recipe, self.start) if recipe is not None]
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def first(self) -> Job | None:
        """The run that must be there before this one."""
        return None if self.start is None else Job(self.start)

    @property
    def title(self) -> str:
        """What it is, for people."""
        method = method_behind(self.recipe, starts_from_another=self.start is not None)
        return f"{self.recipe.dataset} {self.recipe.model}, {method.title}, seed {self.recipe.seed}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        start = None if self.start is None else _plain(self.start)
        return {"recipe": _plain(self.recipe), "start": start}

    @classmethod
    def from_dict(cls, content: Any, source: str) -> Job:
        """The job that `to_dict` gave; anything else is a ValueError."""
        if not isinstance(content, dict) or not {"recipe", "start"} <= set(content):
            raise ValueError(f"{source}: a run needs its recipe and its start")
        start = content["start"]
        return cls(_recipe(content["recipe"], source), None if start is None else _recipe(start, source))


def job_of(base: Recipe, method: str, seed: int) -> Job:
    """The run of a method from what all methods share.

    >>> job_of(Recipe(dataset="digits", epochs=3), "ci_0.1", seed=1).recipe.beta
    0.1
    """
    wanted = method_of(method)
    recipe = replace(base, seed=seed, **wanted.changes).resolved()
    if wanted.starts_from is None:
        return Job(recipe)
    # A share of the steps is left to the loss; which run the weights are from is said by `start`.
    return Job(replace(recipe, last_share=0.2), job_of(base, wanted.starts_from, seed).recipe)


_FIRST_NAMES = {now: before for before, now in RENAMED.items()}  # so that a renamed field changes no key


def _deciding(recipe: Recipe) -> dict[str, Any]:
    usual = _plain(Recipe())
    found = {name: value for name, value in _plain(recipe).items() if value != usual[name] and name not in PLACE}
    return {_FIRST_NAMES.get(name, name): value for name, value in found.items()}


def _plain(recipe: Recipe) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(recipe).items()}


def _recipe(content: Any, source: str) -> Recipe:
    if not isinstance(content, dict):
        raise ValueError(f"{source}: a recipe must be an object, got a {type(content).__name__}")
    return Recipe(**checked_values(content, source=source)).resolved()
