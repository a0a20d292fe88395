"""Which reading of α is right on CIFAR-100? Runs of the grid, judged on training images that none of them has seen.

    python benchmarks/alpha_on_cifar.py OUTPUT...          folders that `singleshot reproduce` has made

The small scale trains on 5,000 of the 50,000 training images, so that 5,000 of the others can be validation images: no
test image is read, and what they say may decide a default. Nothing is trained. Each row is kept in
results/alpha_cifar.json as it comes, with the name of its run, whose recipe and revision results/runs has; the same
command adds what is new.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from singleshot.common.files import write_text
from singleshot.common.splits import split_training
from singleshot.data import Dataset, load_dataset
from singleshot.grid.store import ResultStore
from singleshot.metrics import Calibration
from singleshot.paper.methods import OTHER_MEASURES, method_behind
from singleshot.training.inference import BATCH, evaluation_mode
from singleshot.training.run import Run

OUTPUT = Path(__file__).resolve().parent.parent / "results" / "alpha_cifar.json"
DATASET, IMAGES = "cifar100", 5000
JUDGED = ("baseline", "passes", "vwci", *(f"vwci_{reading}" for reading in OTHER_MEASURES))


def validation_metrics(run: Run, dataset: Dataset) -> dict[str, float]:
    """One pass over images of the training set that the run was not trained on, the same for every run."""
    labels = dataset.train.labels
    assert run.recipe.validation == 0
    trained, _ = split_training(labels, validation=0, train_images=run.recipe.train_images)
    unseen = torch.ones(len(labels), dtype=torch.bool)
    unseen[trained] = False
    rest = unseen.nonzero().squeeze(1)
    chosen = rest[torch.randperm(len(rest), generator=torch.Generator().manual_seed(0))[:IMAGES]]
    model, normalization = run.load_model(), run.normalization()
    calibration = Calibration(bins=20)
    with evaluation_mode(model):
        for index in torch.split(chosen, BATCH):
            calibration.update(logits=model(normalization(dataset.train.images[index])), labels=labels[index])
    metrics = calibration.compute().metrics()
    return {name: metrics[name] for name in ("accuracy", "ece", "nll", "overconfidence", "underconfidence")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outputs", type=Path, nargs="+")
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else []
    known = {row["run"] for row in rows}
    for folder in parser.parse_args().outputs:
        for result in ResultStore.open(folder / "results").results.values():
            recipe, start = result.job.recipe, result.job.start
            method = method_behind(recipe, starts_from_another=start is not None).name
            key = result.job.key
            place = folder / "runs" / key
            if method not in JUDGED or recipe.dataset != DATASET or key in known or not Run.exists(place):
                continue
            row = {"run": key, "model": recipe.model, "method": method, "seed": recipe.seed}
            dataset = load_dataset(recipe.dataset, data_root=None, image_size=recipe.image_size)
            rows.append({**row, **validation_metrics(Run.open(place), dataset)})
            print(json.dumps(rows[-1]), flush=True)
            ordered = sorted(rows, key=lambda one: (str(one["model"]), JUDGED.index(str(one["method"])), one["seed"]))
            write_text(OUTPUT, "[\n" + ",\n".join(json.dumps(one) for one in ordered) + "\n]\n")


if __name__ == "__main__":
    main()
