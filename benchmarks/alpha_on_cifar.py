"""Compare disagreement measures on CIFAR-100: evaluate finished runs on training images that none of them has seen.

    python benchmarks/alpha_on_cifar.py OUTPUT...          output folders of `singleshot reproduce`

The small scale trains on 5,000 of the 50,000 training images; 5,000 of the others are validation images. No test image
is read, so the result may determine a default. Nothing is trained. Each row is written to results/alpha_cifar.json with
the key of its run in results/runs; repeating the command adds new runs.
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
from singleshot.grid.training_job import TrainingJob
from singleshot.metrics import Calibration
from singleshot.paper.methods import METHODS, OTHER_MEASURES
from singleshot.training.inference import BATCH, evaluation_mode
from singleshot.training.run import Run

OUTPUT = Path(__file__).resolve().parent.parent / "results" / "alpha_cifar.json"
DATASET, IMAGES = "cifar100", 5000
COMPARED = ("baseline", "passes", "vwci", *(f"vwci_{measure}" for measure in OTHER_MEASURES))


def method_of(job: TrainingJob) -> str | None:
    """Return the name of the method whose changes fit the recipe of a job; the most specific one if several do."""
    fitting = [
        (len(method.changes), name)
        for name, method in METHODS.items()
        if (method.starts_from is not None) == (job.start is not None)
        and all(getattr(job.recipe, field) == value for field, value in method.changes.items())
    ]
    most = max((changes for changes, _ in fitting), default=0)
    return next((name for changes, name in fitting if changes == most), None)


def validation_metrics(run: Run, dataset: Dataset) -> dict[str, float]:
    """Return the metrics on training images that the run has not seen, the same for every run."""
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
            assert isinstance(result.job, TrainingJob)
            recipe, key = result.job.recipe, result.job.key
            method = method_of(result.job)
            place = folder / "runs" / key
            if method not in COMPARED or recipe.dataset != DATASET or key in known or not Run.exists(place):
                continue
            row = {"run": key, "model": recipe.model, "method": method, "seed": recipe.seed}
            dataset = load_dataset(recipe.dataset, data_root=None, image_size=recipe.image_size)
            rows.append({**row, **validation_metrics(Run.open(place), dataset)})
            print(json.dumps(rows[-1]), flush=True)
            ordered = sorted(rows, key=lambda one: (str(one["model"]), COMPARED.index(str(one["method"])), one["seed"]))
            write_text(OUTPUT, "[\n" + ",\n".join(json.dumps(one) for one in ordered) + "\n]\n")


if __name__ == "__main__":
    main()
