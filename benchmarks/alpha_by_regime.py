"""Compare disagreement measures under different noise: survival in a ResNet, and strong dropout in VGG-16.

    python benchmarks/alpha_by_regime.py OUTPUT [REGIME...]            runs are kept in OUTPUT and resumed

alpha_search.py varies dropout in a small CNN. This script varies stochastic depth in a narrow ResNet-18 on digits, and
trains the VGG-16 of the small scale on CIFAR-100 with dropout 0.5 instead of 0.2, with which the baseline does not
memorise the images. Methods are evaluated on training images that the run has not seen; no test image
is read. Each row is written to results/alpha_regimes.json when it is finished, and is not run again.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from singleshot.common.files import write_text
from singleshot.grid.training_job import TrainingJob
from singleshot.paper.methods import METHODS, OTHER_MEASURES, base_recipe
from singleshot.training.recipe import Recipe
from singleshot.training.run import Run
from singleshot.training.trainer import train

ROWS = Path(__file__).resolve().parent.parent / "results" / "alpha_regimes.json"
ALL = ("baseline", "passes", "vwci", *(f"vwci_{measure}" for measure in OTHER_MEASURES))
SHOWN = ("accuracy", "ece", "nll", "overconfidence", "underconfidence")
DIGITS = 898


@dataclass(frozen=True)
class Regime:
    """A network with its noise and images, and the methods and seeds to run."""

    title: str
    recipe: Recipe
    seeds: range
    methods: tuple[str, ...] = ALL


def _digits(images: int, survival: float) -> Regime:
    recipe = replace(
        base_recipe("small", dataset="digits", model="resnet18"),
        noise=1 - survival,
        train_images=None,
        validation=1 - images / DIGITS,
    )
    return Regime(f"resnet18 on digits, {images} images, survival {survival:g}", recipe, range(2000, 2003))


_STRONG_DROPOUT = replace(
    base_recipe("small", dataset="cifar100", model="vgg16"), noise=0.5, train_images=10_000, validation=0.5
)
REGIMES = {
    "digits-100-0.8": _digits(images=100, survival=0.8),
    "digits-100-0.5": _digits(images=100, survival=0.5),
    "digits-300-0.5": _digits(images=300, survival=0.5),
    "dropout": Regime(
        "vgg16 on cifar100, 5,000 images, dropout 0.5",
        _STRONG_DROPOUT,
        range(1),
        ("baseline", "vwci", "vwci_total_variation"),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("regimes", nargs="*", metavar="REGIME", help=f"of {', '.join(REGIMES)}; none: all")
    arguments = parser.parse_args()
    if unknown := set(arguments.regimes) - set(REGIMES):
        parser.error(f"unknown regimes {', '.join(sorted(unknown))}; choose from {', '.join(REGIMES)}")
    torch.set_num_threads(1)
    for name in arguments.regimes or REGIMES:
        regime = REGIMES[name]
        for method in regime.methods:
            for seed in regime.seeds:
                recipe = replace(regime.recipe, seed=seed, **METHODS[method].changes).resolved()
                row: dict[str, object] = {"regime": regime.title, "method": method, "seed": seed}
                row["run"] = TrainingJob(recipe).key  # a changed recipe is another run
                if not any(row["run"] == known["run"] for known in _rows()):
                    _keep(row | _metrics(recipe, arguments.output / f"{name}-{method}-{seed}"))


def _metrics(recipe: Recipe, folder: Path) -> dict[str, object]:
    train(recipe, folder)
    run = Run.open(folder)
    last = run.records()[-1]
    place = {name: run.info.environment.get(name) for name in ("revision", "torch", "processor")}
    found: dict[str, object] = {**place, "trained_accuracy": last["train_accuracy"]}
    return found | {name: last["validation"][name] for name in SHOWN}


def _keep(row: dict[str, object]) -> None:
    print(json.dumps(row), flush=True)
    titles = [regime.title for regime in REGIMES.values()]
    rows = sorted(
        [*_rows(), row],
        key=lambda one: (titles.index(str(one["regime"])), ALL.index(str(one["method"])), one["seed"]),
    )
    write_text(ROWS, "[\n" + ",\n".join(json.dumps(one) for one in rows) + "\n]\n")


def _rows() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(ROWS.read_text(encoding="utf-8")) if ROWS.exists() else []
    return rows


if __name__ == "__main__":
    main()
