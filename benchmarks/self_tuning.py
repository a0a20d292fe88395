"""What a self-tuned strength adds to the time of a training: runs with `strength: auto` beside a fixed strength.

    python benchmarks/self_tuning.py [--rounds 3] [--epochs 8]

The small networks of the reproduction, 5,000 images, one thread, interleaved. Both runs hold out the same images and
apply their loss in the second half. The ratio compares the processor time of whole runs.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch

from singleshot.paper.methods import base_recipe
from singleshot.training import Recipe, train
from singleshot.training.recipe import LossName


def seconds(recipe: Recipe, data_root: Path | None) -> float:
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        train(recipe, Path(folder) / "run", data_root=data_root)
        return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--data-root", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("| network and loss | fixed strength | self-tuned | ratio |\n| --- | ---: | ---: | ---: |")
    for model in ("resnet18", "vgg16"):
        losses: tuple[tuple[LossName, int], ...] = (("label_smoothing", 1), ("vwci", 5))
        for loss, passes in losses:
            base = replace(
                base_recipe("small", dataset="cifar100", model=model),
                loss=loss,
                samples=passes,
                gradient_passes=1,
                epochs=args.epochs,
                evaluate_every=args.epochs,
                validation=0.1,
                last_share=0.5,
            )
            runs = {"fixed": base, "tuned": replace(base, strength="auto", give_back=0.0)}
            found: dict[str, list[float]] = {name: [] for name in runs}
            for _ in range(args.rounds):
                for name, recipe in runs.items():
                    found[name].append(seconds(recipe, args.data_root))
            fixed, tuned = median(found["fixed"]), median(found["tuned"])
            print(f"| {model}, {loss} | {fixed:.1f} s | {tuned:.1f} s | {tuned / fixed:.3f} |", flush=True)


if __name__ == "__main__":
    main()
