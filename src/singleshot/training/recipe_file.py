"""A recipe as a YAML file: read with every name and type checked, written whole."""

from __future__ import annotations

import difflib
import reprlib
import types
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from singleshot.training.recipe import RENAMED, Recipe


def read_recipe_values(path: Path) -> dict[str, Any]:
    """The values a YAML file sets, checked; a user's file need not set all."""
    try:
        # A safe loader: it can build nothing but plain values.
        content = yaml.load(path.read_text(encoding="utf-8"), _EachKeyOnce)
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such recipe file") from None
    except Exception as error:  # a damaged file can make the parser fail in any way
        raise ValueError(f"{path} cannot be read as YAML: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold lines such as `epochs: 30`, got a {type(content).__name__}")
    return checked_values(content, source=str(path))


class _EachKeyOnce(yaml.SafeLoader):
    """The safe loader, which would take the last of two values for one key without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = sorted({str(name) for name in names if names.count(name) > 1})
        if twice:
            raise yaml.YAMLError(f"{', '.join(twice)} is given more than once")
        return super().construct_mapping(node, deep)


def read_recipe(path: Path) -> Recipe:
    """A whole recipe, as a run keeps it."""
    values = read_recipe_values(path)
    missing = [field.name for field in fields(Recipe) if field.name not in values]
    if missing:
        raise ValueError(f"{path} is not the recipe of a run: it lacks {', '.join(missing)}")
    return Recipe(**values)


def recipe_text(recipe: Recipe) -> str:
    """The recipe as YAML, every field on a line."""
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(recipe).items()}
    return yaml.safe_dump(plain, sort_keys=False)


def checked_values(content: dict[Any, Any], *, source: str) -> dict[str, Any]:
    """Every value in the type its field has, under the name the field has now."""
    found: dict[str, Any] = {}
    for key, value in content.items():
        name = RENAMED.get(str(key), str(key))
        if name in found:
            raise ValueError(f"{source}: {name} is given more than once, as {key} too")
        found[name] = checked_value(name, value, source=source)
    return found


def checked_value(name: str, value: Any, *, source: str) -> Any:
    """The value in the type its field has, or an error that says what is wrong and what it could have meant."""
    hints = get_type_hints(Recipe)
    if name not in hints:
        nearest = difflib.get_close_matches(name.replace("-", "_"), hints, n=1, cutoff=0.5)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"the fields are {', '.join(hints)}"
        raise ValueError(f"{source}: unknown recipe field {name!r}; {hint}")
    wanted = hints[name]
    found = _converted(value, wanted)
    if found is _WRONG:
        hint = ""
        if get_origin(wanted) is Literal and isinstance(value, str):
            nearest = difflib.get_close_matches(value, get_args(wanted), n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise ValueError(f"{source}: {name} must be {_in_words(wanted)}, got {reprlib.repr(value)[:200]}{hint}")
    return found


_WRONG = object()


def _converted(value: Any, wanted: Any) -> Any:
    """The value as the wanted type where that loses nothing, else _WRONG."""
    origin = get_origin(wanted)
    if origin in (Union, types.UnionType):
        options = (_converted(value, option) for option in get_args(wanted))
        return next((option for option in options if option is not _WRONG), _WRONG)
    if origin is Literal:
        return value if value in get_args(wanted) else _WRONG
    if origin is tuple:
        items = [_converted(item, get_args(wanted)[0]) for item in value] if isinstance(value, list) else [_WRONG]
        return _WRONG if _WRONG in items else tuple(items)
    if wanted is float:
        return _as_float(value)
    return value if type(value) is wanted else _WRONG


def _as_float(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return _WRONG
    try:
        return float(value)  # YAML takes 1e-3, without a dot, for text
    except (ValueError, OverflowError):
        return _WRONG


def _in_words(wanted: Any) -> str:
    origin = get_origin(wanted)
    if origin in (Union, types.UnionType):
        return " or ".join(_in_words(option) for option in get_args(wanted))
    if origin is Literal:
        return f"one of {', '.join(get_args(wanted))}"
    if origin is tuple:
        return "a list of numbers"
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null"}
    return names[wanted]


PresetName = Literal["paper", "small"]

_PAPER: dict[str, dict[str, Any]] = {
    "vgg16": {"batch_size": 256},
}
_SMALL: dict[str, dict[str, Any]] = {
    "vgg16": {"batch_size": 128},
    # These share almost nothing between passes: on all of CIFAR-100 an epoch of theirs would take half an hour.
    "wide_resnet16_8": {"train_images": 10_000, "epochs": 15},
    "densenet40_12": {"train_images": 10_000, "epochs": 15},
}
# A mirrored 2 is no 2.
_READ_ONE_WAY = ("digits", "mnist")


def preset(name: PresetName, *, model: str, dataset: str) -> Recipe:
    """The recipe of this name for a network and a data set.

    >>> preset("paper", model="vgg16", dataset="cifar100").batch_size
    256
    >>> preset("small", model="resnet18", dataset="digits").mirror
    False
    """
    recipe = Recipe(model=model, dataset=dataset, mirror=dataset not in _READ_ONE_WAY)
    if name == "paper":
        return replace(recipe, **_PAPER.get(model, {}))
    return replace(recipe, **{"width": 0.25, "epochs": 30, "validation": 0.1, **_SMALL.get(model, {})})
