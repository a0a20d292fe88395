"""The tables and figures of the paper as grids of runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

import msgspec

from singleshot.common.checks import check_choice
from singleshot.common.files import write_text
from singleshot.data import list_datasets
from singleshot.grid.store import ResultStore
from singleshot.grid.training_job import TrainingJob
from singleshot.models import list_models
from singleshot.paper.methods import (
    CI,
    EPSILONS,
    OTHER_MEASURES,
    PAPER_MODELS,
    PASSES,
    SMALL_MODELS,
    Scale,
    base_recipe,
    job_of,
)
from singleshot.paper.published import published_rows
from singleshot.paper.regimes import REGIMES, trained_methods
from singleshot.training.recipe import Recipe

SELECTED_SMOOTHING = "smoothing"
"""Label smoothing with the ε that held-out images select; known only after the candidate runs."""
ADDED = ("passes", SELECTED_SMOOTHING, "focal", *(f"vwci_{measure}" for measure in OTHER_MEASURES))
"""Methods that we add to every table of the paper."""
EXPERIMENTS: dict[str, tuple[str, ...]] = {
    "table1": ("baseline", *CI, "vwci", *ADDED),
    "table2": ("baseline", "held_out_baseline", "vwci", *ADDED),
    "table3": ("baseline", "vwci", "vwci_star", *ADDED),
    "tableA": ("baseline", *CI, "vwci", *ADDED),
    "tableB": ("baseline", *CI, "vwci", *ADDED),
    "fig1": ("baseline", *CI, "vwci"),
    "fig2": ("baseline",),
    "fig4": ("baseline", *(f"vwci_T{passes}" for passes in PASSES)),
    "fig5": ("baseline", *CI, "vwci"),
}
"""The methods of each table and figure of the paper."""
EVIDENCE = "evidence"
"""The comparison in our own regimes."""
REQUEST_FILE = "grid.json"
_CIFAR, _TINY = "cifar100", "tiny_imagenet"
_PAPER_FIGURES = {
    "fig1": ((_TINY, "vgg16"),),
    "fig2": ((_CIFAR, "resnet34"), (_CIFAR, "vgg16")),
    "fig4": tuple((dataset, model) for dataset in (_TINY, _CIFAR) for model in PAPER_MODELS),
    "fig5": ((_TINY, "resnet34"), (_CIFAR, "resnet34")),
}
"""Data sets and networks of the figures in the paper, which does not name the networks of Fig. 4."""


@dataclass(frozen=True)
class PaperGrid:
    """The runs of some experiments: every method with every base recipe and several seeds."""

    experiments: tuple[str, ...]
    bases: tuple[Recipe, ...]  # one shared recipe per data set and network
    seeds: int
    regime: str | None = None  # of the evidence

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of all experiments, each once."""
        if self.regime is not None:
            return trained_methods(REGIMES[self.regime].rows)
        return tuple(dict.fromkeys(method for name in self.experiments for method in EXPERIMENTS[name]))

    def jobs(self, store: ResultStore) -> list[TrainingJob]:
        """Return every job known to be needed, seed by seed, so that an interrupted grid has complete seeds."""
        jobs: list[TrainingJob] = []
        for seed, base, method in product(range(self.seeds), self.bases, self.methods):
            jobs += smoothing_candidates(base) if method == SELECTED_SMOOTHING else []
            trained = trained_method(method, base, store)
            jobs += [job_of(base, trained, seed)] if trained else []
        return list({job.key: job for job in jobs}.values())


def smoothing_candidates(base: Recipe) -> list[TrainingJob]:
    """Return the runs on 90 % of the training images whose other 10 % select the ε of label smoothing."""
    return [job_of(base, f"held_out_smoothing_{epsilon:g}", seed=0) for epsilon in EPSILONS]


def select_smoothing(base: Recipe, store: ResultStore) -> str | None:
    """Return the label smoothing with the lowest NLL, a proper score, on held-out images; None: runs are missing."""
    candidates = smoothing_candidates(base)
    if store.missing(candidates):
        return None
    nll = {epsilon: store[job].metrics("validation")["nll"] for epsilon, job in zip(EPSILONS, candidates, strict=True)}
    return f"smoothing_{min(nll, key=nll.__getitem__):g}"


def trained_method(method: str, base: Recipe, store: ResultStore) -> str | None:
    """Return the method itself, or the label smoothing in its place; None: it is not selected yet."""
    return select_smoothing(base, store) if method == SELECTED_SMOOTHING else method


class GridRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"experiments": "exhibits"}):
    """The experiments to run and where to measure them; by default as in the paper."""

    experiments: tuple[str, ...]
    dataset: str | None
    models: tuple[str, ...]
    seeds: Annotated[int, msgspec.Meta(ge=1, le=1000)]
    scale: Scale
    regimes: tuple[str, ...] = ()  # of the evidence; all if empty

    def grids(self) -> list[PaperGrid]:
        """Return one grid per data set and set of networks, after checking the names."""
        for experiment in self.experiments:
            check_choice("experiment", experiment, (*EXPERIMENTS, EVIDENCE))
        for model in self.models:
            check_choice("model", model, tuple(list_models()))
        for regime in self.regimes:
            check_choice("regime", regime, tuple(REGIMES))
        if EVIDENCE in self.experiments:
            names = self.regimes or tuple(REGIMES)
            return [PaperGrid((EVIDENCE,), (REGIMES[name].recipe,), self.seeds, name) for name in names]
        groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for experiment in self.experiments:
            for dataset, models in self._networks(experiment).items():
                groups.setdefault((dataset, models), []).append(experiment)
        return [
            PaperGrid(
                tuple(experiments),
                tuple(base_recipe(self.scale, dataset=dataset, model=model) for model in models),
                self.seeds,
            )
            for (dataset, models), experiments in groups.items()
        ]

    def _networks(self, experiment: str) -> dict[str, tuple[str, ...]]:
        """Return the networks of an experiment by data set."""
        if self.scale == "small":
            pairs = [(_TINY if experiment == "tableA" else _CIFAR, model) for model in SMALL_MODELS]
        elif experiment in _PAPER_FIGURES:
            pairs = list(_PAPER_FIGURES[experiment])
        else:
            pairs = [(row.dataset, row.model) for row in published_rows(experiment.removeprefix("table"))]
        networks: dict[str, tuple[str, ...]] = {}
        for published, model in pairs:
            dataset = published if self.dataset is None else _resolve_dataset(self.dataset)
            networks[dataset] = tuple(dict.fromkeys(self.models or (*networks.get(dataset, ()), model)))
        return networks

    def save(self, folder: Path) -> bool:
        """Write the request to the folder; return whether it differs from the one before."""
        path, text = folder / REQUEST_FILE, json.dumps(msgspec.to_builtins(self), indent=1) + "\n"
        is_new = not path.is_file() or path.read_bytes() != text.encode()
        write_text(path, text)
        return is_new

    @classmethod
    def load(cls, folder: Path) -> GridRequest:
        """Read the request of the grid in this folder."""
        path = folder / REQUEST_FILE
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (FileNotFoundError, NotADirectoryError):
            raise ValueError(
                f"{folder} holds no grid: {REQUEST_FILE} is missing; `singleshot reproduce table1 --output {folder}` "
                "starts one"
            ) from None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"{path} is damaged ({error}); repeat the original command to rewrite it") from None


def _resolve_dataset(dataset: str) -> str:
    """Return a known name unchanged and a folder as an absolute path, so that its runs have the same key anywhere."""
    if not dataset:
        raise ValueError("dataset must be a name or a folder with one subfolder per class, got ''")
    folder = Path(dataset)
    is_name = dataset in list_datasets() or not (folder.is_dir() or len(folder.parts) > 1)
    return dataset if is_name else str(folder.resolve())
