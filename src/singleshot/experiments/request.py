"""What was asked for, as a grid of runs; kept beside the results, so that one can look on from elsewhere."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from singleshot.checks import check_choice, check_size
from singleshot.experiments.plan import EXHIBITS, Grid
from singleshot.experiments.scales import PAPER_MODELS, SMALL_MODELS, Scale, base_recipe
from singleshot.files import write_text
from singleshot.models import list_models

FILE = "grid.json"
_PAPERS_OWN = {"tableA": "tiny_imagenet"}  # the data set of an exhibit; CIFAR-100 where nothing is said


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
        check_size("seeds", self.seeds, least=1)
        check_choice("scale", self.scale, ("paper", "small"))
        for exhibit in self.exhibits:
            check_choice("exhibit", exhibit, tuple(EXHIBITS))
        for model in self.models:
            check_choice("model", model, tuple(list_models()))
        models = self.models or (PAPER_MODELS if self.scale == "paper" else SMALL_MODELS)
        by_dataset: dict[str, list[str]] = {}
        for exhibit in self.exhibits:
            by_dataset.setdefault(self.dataset or _PAPERS_OWN.get(exhibit, "cifar100"), []).append(exhibit)
        return [
            Grid(
                tuple(exhibits),
                tuple(base_recipe(self.scale, dataset=dataset, model=model) for model in dict.fromkeys(models)),
                self.seeds,
            )
            for dataset, exhibits in by_dataset.items()
        ]

    def save(self, folder: Path) -> None:
        """Leave word of what is being made in this folder."""
        write_text(folder / FILE, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Request:
        """What is being made in this folder."""
        path = folder / FILE
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            content["exhibits"], content["models"] = tuple(content["exhibits"]), tuple(content["models"])
            return cls(**content)
        except FileNotFoundError:
            raise ValueError(
                f"{folder} holds no grid: there is no {FILE}; `singleshot reproduce table1 --output {folder}` makes one"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{path} is damaged ({error}); the command that made it writes it anew") from None
