"""What a self-tuned strength adds to the time of a training: the share of the processor time that its updates take.

    python benchmarks/self_tuning.py [--epochs 10] [--data-root DIR]

The small networks of the reproduction on 5,000 images of CIFAR-100, a tenth of them held out, one thread. With
`give_back` the strength is tuned in 30 % of the steps, without it in 50 %.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import torch

from singleshot.common.loss_names import LossName
from singleshot.paper.methods import base_recipe
from singleshot.training import Recipe, train
from singleshot.training.loop import TrainingLoop


def share_of_updates(recipe: Recipe, data_root: Path | None) -> float:
    spent = 0.0
    tune = TrainingLoop._tune

    def timed(loop: TrainingLoop) -> None:
        nonlocal spent
        started = time.process_time()
        tune(loop)
        spent += time.process_time() - started

    with tempfile.TemporaryDirectory() as folder, patch.object(TrainingLoop, "_tune", timed):
        started = time.process_time()
        train(recipe, Path(folder) / "run", data_root=data_root)
        return spent / (time.process_time() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--data-root", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    losses: tuple[tuple[LossName, int], ...] = (("label_smoothing", 1), ("vwci", 5))
    print("| network and loss | share of the updates | without giving back |\n| --- | ---: | ---: |")
    for model in ("resnet18", "vgg16"):
        for loss, passes in losses:
            base = base_recipe("small", dataset="cifar100", model=model)
            base = replace(base, loss=loss, samples=passes, gradient_passes=1, strength="auto")
            base = replace(base, epochs=args.epochs, evaluate_every=args.epochs)
            shares = [share_of_updates(replace(base, give_back=share), args.data_root) for share in (0.2, 0.0)]
            print(f"| {model}, {loss} | {' | '.join(f'{share:.1%}' for share in shares)} |", flush=True)


if __name__ == "__main__":
    main()
