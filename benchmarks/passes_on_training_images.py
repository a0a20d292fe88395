"""Disagreement of five passes on the training images, for networks with and without overconfidence.

    python benchmarks/passes_on_training_images.py OUTPUT...          output folders of `singleshot reproduce`

VWCI computes its weight from passes over training images alone. If two networks look alike there and only one of them
is overconfident on unseen images, no disagreement measure is right for both. All networks are trained with plain
cross-entropy. Unseen images are validation images: no test image is read. Writes results/passes_seen.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from alpha_on_cifar import method_of, validation_metrics as unseen_by_run
from alpha_search import REGIMES, epistemic_share
from torch import Tensor, nn

from singleshot.common.files import write_text
from singleshot.common.splits import split_training
from singleshot.data import load_dataset, split_digits
from singleshot.grid.store import ResultStore
from singleshot.grid.training_job import TrainingJob
from singleshot.losses import cross_entropy_loss
from singleshot.metrics import Calibration
from singleshot.models import SmallCNN
from singleshot.paper.quickstart import Setting
from singleshot.sampling import sample
from singleshot.training.inference import evaluation_mode
from singleshot.training.run import Run
from singleshot.uncertainty import normalized_variance

OUTPUT = Path(__file__).resolve().parent.parent / "results" / "passes_seen.json"
PASSES, IMAGES, SEED = 5, 1000, 2000
TITLES = {"baseline": "1 pass", "passes": "5 passes"}
DIGITS = ("30 images, dropout 0.2", "100 images, dropout 0.5, 60 epochs")


def seen(model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, float]:
    """Return the disagreement of the passes on training images, and their accuracy and confidence."""
    with evaluation_mode(model), torch.no_grad():
        log_probs = sample(model, images, samples=PASSES, seed=0).log_softmax(-1)
    mean = log_probs.exp().mean(0)
    return {
        "trained_accuracy": float((mean.argmax(-1) == labels).double().mean()),
        "trained_confidence": float(mean.amax(-1).mean()),
        "epistemic_share": float(epistemic_share(log_probs).mean()),
        **{kind: float(normalized_variance(log_probs, kind).mean()) for kind in ("bhattacharyya", "total_variation")},
    }


def trained_on_digits(setting: Setting, passes: int) -> dict[str, float]:
    """Train a small network on a few digits, and measure it on training and validation images."""
    torch.manual_seed(SEED)
    data = split_digits(setting.train_images, SEED)
    model = SmallCNN(num_classes=10, dropout=setting.dropout)
    images, labels = data.train.normalized(), data.train.labels
    optimizer = torch.optim.Adam(model.parameters(), lr=setting.learning_rate)
    model.train()
    for _ in range(setting.epochs):
        for batch in torch.split(torch.randperm(len(labels)), setting.batch_size):
            loss = cross_entropy_loss(sample(model, images[batch], samples=passes), labels[batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    calibration = Calibration(bins=20)
    with evaluation_mode(model), torch.no_grad():
        calibration.update(logits=model(data.validation.normalized()), labels=data.validation.labels)
    metrics = calibration.compute().metrics()
    return {**seen(model, images, labels), **{name: metrics[name] for name in ("accuracy", "ece")}}


def trained_in_grid(run: Run) -> dict[str, float]:
    """Measure a finished run on some of its training images and on unseen images."""
    recipe = run.recipe
    dataset = load_dataset(recipe.dataset, data_root=None, image_size=recipe.image_size)
    trained, _ = split_training(dataset.train.labels, validation=0, train_images=recipe.train_images)
    some = trained[:: max(1, len(trained) // IMAGES)]
    images = run.normalization()(dataset.train.images[some])
    unseen = unseen_by_run(run, dataset)
    return {
        **seen(run.load_model(), images, dataset.train.labels[some]),
        **{name: unseen[name] for name in ("accuracy", "ece")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outputs", type=Path, nargs="+")
    torch.set_num_threads(1)
    rows = []
    for folder in parser.parse_args().outputs:
        for result in ResultStore.open(folder / "results").results.values():
            assert isinstance(result.job, TrainingJob)
            recipe, method = result.job.recipe, method_of(result.job)
            place = folder / "runs" / result.job.key
            if method in TITLES and recipe.seed == 0 and Run.exists(place):
                network = f"{recipe.model} on {recipe.dataset}, {TITLES[method]}"
                rows.append({"network": network, **trained_in_grid(Run.open(place))})
    for regime in DIGITS:
        for passes in (1, PASSES):
            network = f"small CNN on digits, {regime}, {passes} {'pass' if passes == 1 else 'passes'}"
            rows.append({"network": network, **trained_on_digits(REGIMES[regime], passes)})
    rows.sort(key=lambda row: -float(str(row["ece"])))
    for row in rows:
        print(json.dumps(row))
    write_text(OUTPUT, "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


if __name__ == "__main__":
    main()
