"""Recipes as YAML files, and presets."""

from __future__ import annotations

import difflib
import re
import reprlib
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import yaml

from singleshot.common.text import quoted, shown
from singleshot.training.recipe import ADDED, RENAMED, Recipe


def read_recipe_values(path: Path) -> dict[str, Any]:
    """Read the fields that a YAML file sets, with names and types checked."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeyLoader)
    except FileNotFoundError:
        raise ValueError(f"{path}: no such recipe file") from None
    except Exception as error:  # a damaged file can make the parser raise anything
        raise ValueError(f"{path} cannot be read as YAML: {shown(error, 500)}") from None
    if content is None:
        return {}
    if isinstance(content, dict):
        return checked_values(content, source=str(path))
    raise ValueError(f"{path} must hold lines such as `epochs: 30`, got a {type(content).__name__}")


class _UniqueKeyLoader(yaml.SafeLoader):
    """The safe loader, with errors for duplicate keys, of which it takes the last, and for ambiguous numbers."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        duplicates = sorted({str(name) for name in names if names.count(name) > 1})
        if duplicates:
            raise yaml.YAMLError(f"{', '.join(duplicates)} is given more than once")
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        """Refuse numbers that YAML 1.1, which this loader reads, and YAML 1.2 read differently."""
        if ":" in node.value or re.fullmatch(r"[-+]?0[0-9_]+", node.value):
            raise yaml.YAMLError(
                f"{quoted(node.value)} is an octal number or a time to some programs; write a plain number, or quote "
                "text"
            )
        is_int = node.tag == "tag:yaml.org,2002:int"
        return self.construct_yaml_int(node) if is_int else self.construct_yaml_float(node)


for _kind in ("int", "float"):
    _UniqueKeyLoader.add_constructor(f"tag:yaml.org,2002:{_kind}", _UniqueKeyLoader.construct_number)


def read_recipe(path: Path) -> Recipe:
    """Read the complete recipe of a run."""
    values = ADDED | read_recipe_values(path)
    missing = [field.name for field in fields(Recipe) if field.name not in values]
    if missing:
        raise ValueError(f"{path} is not the complete recipe of a run: it lacks {', '.join(missing)}")
    return Recipe(**values)


def recipe_text(recipe: Recipe) -> str:
    """Return the recipe as YAML with every field."""
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(recipe).items()}
    return yaml.safe_dump(plain, sort_keys=False)


def checked_values(content: dict[Any, Any], *, source: str) -> dict[str, Any]:
    """Return the values under the present names of their fields and in their types, or raise ValueError."""
    values: dict[str, Any] = {}
    for key, value in content.items():
        name = RENAMED.get(str(key), str(key))
        if name in values:
            raise ValueError(f"{source}: {name} is given more than once, also as {key}")
        values[name] = _checked_value(name, value, source)
    return values


def _checked_value(name: str, value: Any, source: str) -> Any:
    types = get_type_hints(Recipe)
    if name not in types:
        nearest = difflib.get_close_matches(name.replace("-", "_"), types, n=1, cutoff=0.5)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"the fields are {', '.join(types)}"
        raise ValueError(f"{source}: unknown recipe field {quoted(name)}; {hint}")
    try:
        return _converted(value, types[name])
    except ValueError:
        shown = reprlib.repr(value)[:200]
        raise ValueError(f"{source}: {name} must be {_described(types[name])}, got {shown}") from None


def _converted(value: Any, wanted: Any) -> Any:
    if isinstance(value, str) and float in (wanted, *get_args(wanted)):
        with suppress(ValueError):
            value = float(value)  # YAML reads 1e-3, which has no dot, as text
    elif isinstance(value, list) and get_origin(wanted) is tuple:
        value = [_converted(item, float) for item in value]
    return msgspec.convert(value, wanted)


def _described(wanted: Any) -> str:
    if get_origin(wanted) is Literal:
        return f"one of {', '.join(get_args(wanted))}" if len(get_args(wanted)) > 1 else str(get_args(wanted)[0])
    if get_origin(wanted) is tuple:
        return "a list of numbers"
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null"}
    return " or ".join(names.get(option) or _described(option) for option in get_args(wanted) or (wanted,))


PresetName = Literal["paper", "small"]

_SMALL: dict[str, dict[str, Any]] = {
    "vgg16": {"batch_size": 128},
    # Their stochastic passes share little computation: an epoch on all of CIFAR-100 would take half an hour.
    "wide_resnet16_8": {"train_images": 10_000, "epochs": 15},
    "densenet40_12": {"train_images": 10_000, "epochs": 15},
}
_NOT_MIRRORED = ("digits", "mnist")  # a mirrored 2 is not a 2


def preset(name: PresetName, *, model: str, dataset: str) -> Recipe:
    """Return the recipe of this name for a network and a data set.

    >>> preset("paper", model="vgg16", dataset="cifar100").batch_size
    256
    >>> preset("small", model="resnet18", dataset="digits").mirror
    False
    """
    recipe = Recipe(model=model, dataset=dataset, mirror=dataset not in _NOT_MIRRORED)
    if name == "paper":
        return replace(recipe, batch_size=256) if model == "vgg16" else recipe
    return replace(recipe, **{"width": 0.25, "epochs": 30, "validation": 0.1, **_SMALL.get(model, {})})
