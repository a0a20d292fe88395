"""What was asked for, as a grid of runs; kept beside the results, so that one can look on from elsewhere."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from singleshot.common.checks import check_choice, check_size
from singleshot.common.files import write_text
from singleshot.data import list_datasets
from singleshot.models import list_models
from singleshot.paper.exhibits import EXHIBITS, Grid
from singleshot.paper.methods import PAPER_MODELS, SMALL_MODELS, Scale, base_recipe
from singleshot.paper.published import published

FILE = "grid.json"
MOST_SEEDS = 1000
_CIFAR, _TINY = "cifar100", "tiny_imagenet"
_FIGURES = {
    "fig1": ((_TINY, "vgg16"),),
    "fig2": ((_CIFAR, "resnet34"), (_CIFAR, "vgg16")),
    "fig4": tuple((dataset, model) for dataset in (_TINY, _CIFAR) for model in PAPER_MODELS),
    "fig5": ((_TINY, "resnet34"), (_CIFAR, "resnet34")),
}
"""Data sets and networks of the paper's figures; Fig. 4 does not name its networks, so it has all of them."""
_KINDS: dict[str, type | tuple[type, ...]] = {
    "exhibits": list,
    "dataset": (str, type(None)),
    "models": list,
    "seeds": int,
    "scale": str,
}
"""What JSON holds for each field of a request."""


@dataclass(frozen=True)
class Request:
    """Exhibits, and where to measure them; what is left open is as in the paper."""

    exhibits: tuple[str, ...]
    dataset: str | None = None
    models: tuple[str, ...] = ()
    seeds: int = 3
    scale: Scale = "small"

    def grids(self) -> list[Grid]:
        """One grid for each data set, checked before anything is done."""
        if check_size("seeds", self.seeds, least=1) > MOST_SEEDS:
            raise ValueError(f"seeds must be at most {MOST_SEEDS}, got {self.seeds}")
        check_choice("scale", self.scale, ("paper", "small"))
        for exhibit in self.exhibits:
            check_choice("exhibit", exhibit, tuple(EXHIBITS))
        for model in self.models:
            check_choice("model", model, tuple(list_models()))
        exhibits_of: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for exhibit in self.exhibits:
            for dataset, models in self._where(exhibit).items():
                exhibits_of.setdefault((dataset, tuple(models)), []).append(exhibit)
        return [
            Grid(
                tuple(exhibits),
                tuple(base_recipe(self.scale, dataset=dataset, model=model) for model in models),
                self.seeds,
            )
            for (dataset, models), exhibits in exhibits_of.items()
        ]

    def _where(self, exhibit: str) -> dict[str, list[str]]:
        """The networks by data set: those of the paper at its scale, two small ones otherwise, unless said."""
        if self.scale == "paper":
            places = _FIGURES.get(exhibit) or tuple(
                (row.dataset, row.model) for row in published(exhibit.removeprefix("table"))
            )
        else:
            own = _TINY if exhibit == "tableA" else _CIFAR
            places = tuple((own, model) for model in SMALL_MODELS)
        asked = self.dataset is not None
        datasets = (
            list(dict.fromkeys(dataset for dataset, _ in places)) if self.dataset is None else [_named(self.dataset)]
        )
        found = {}
        for dataset in datasets:
            papers = [model for own, model in places if asked or own == dataset]
            found[dataset] = list(dict.fromkeys(self.models or papers))
        return found

    def is_saved(self, folder: Path) -> bool:
        """Whether the very same was asked for in this folder the last time."""
        try:
            return (folder / FILE).read_text(encoding="utf-8") == self._text()
        except (OSError, UnicodeDecodeError):
            return False

    def save(self, folder: Path) -> None:
        """Leave word of what is being made in this folder."""
        write_text(folder / FILE, self._text())

    def _text(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def load(cls, folder: Path) -> Request:
        """What is being made in this folder."""
        path = folder / FILE
        try:
            return cls(**_checked(json.loads(path.read_text(encoding="utf-8"))))
        except (FileNotFoundError, NotADirectoryError):
            raise ValueError(
                f"{folder} holds no grid: there is no {FILE}; `singleshot reproduce table1 --output {folder}` makes one"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{path} is damaged ({error}); the command that made it writes it anew") from None


def _checked(content: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request, each of its own type; whether such things exist is seen when the grids are made."""
    for name, kinds in _KINDS.items():
        if name not in content or not isinstance(content[name], kinds):
            raise TypeError(f"{name} cannot be {content[name]!r}" if name in content else f"{name} is missing")
    texts = {name: tuple(content[name]) for name, kinds in _KINDS.items() if kinds is list}
    for name, values in texts.items():
        if not all(isinstance(value, str) for value in values):
            raise TypeError(f"{name} must be names, not {content[name]!r}")
    return {**content, **texts}


def _named(dataset: str) -> str:
    """A name as it is; a folder by its whole path, so that it is the same run from wherever it is asked for."""
    if not dataset:
        raise ValueError("dataset must be a name or a folder of images by class, got ''")
    folder = Path(dataset)
    is_name = dataset in list_datasets() or not (folder.is_dir() or len(folder.parts) > 1)
    return dataset if is_name else str(folder.resolve())
