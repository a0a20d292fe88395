"""How many epochs a regime of the evidence needs: the baseline alone, seed 0, by training images.

    python benchmarks/convergence.py hard-resnet18 [--data-root DIR] [--results DIR] [--output FILE]

The rule: the smallest number of epochs, of 30, 60, 90, 150 and 300, after which the baseline classifies at least 99 %
of its training images correctly in evaluation mode, or which the next candidate improves by less than half a point. The
learning-rate schedule scales with the number of epochs. (At first, a candidate that gained too little was selected
itself. This was changed to save time, when 30 epochs of an earlier fashion-mnist were known. The first wording
would train fashion-mnist for 90 epochs instead of 60; the other regimes do not depend on it.) The
file keeps every candidate that was tried. One whose baseline is among the results is not trained again.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from singleshot.common.files import write_text
from singleshot.grid.store import ResultStore
from singleshot.grid.training_job import tracked_epochs
from singleshot.paper.methods import job_of
from singleshot.paper.regimes import EPOCHS, REGIMES
from singleshot.training import train
from singleshot.training.recipe import Recipe

ENOUGH, NO_GAIN = 0.99, 0.005


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("regime", choices=list(REGIMES))
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--results", type=Path, default=Path("results/runs"))
    parser.add_argument("--output", type=Path, default=Path("results/convergence.json"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    results = ResultStore.open(args.results)
    for reason in results.skipped:
        print(f"skipped: {reason}", flush=True)
    found: dict[str, list[dict[str, Any]]] = {}
    if args.output.exists():
        found = json.loads(args.output.read_text(encoding="utf-8"))
    tried = found.setdefault(args.regime, [])
    for epochs in EPOCHS:
        if epochs not in [one["epochs"] for one in tried]:
            base = replace(REGIMES[args.regime].recipe, epochs=epochs, evaluate_every=max(1, epochs // 10))
            tried.append({"epochs": epochs, **baseline(base, results, args.data_root)})
            write_text(args.output, json.dumps(found, indent=1) + "\n")
        stored = next(one for one in tried if one["epochs"] == epochs)
        print(f"{args.regime}, {epochs} epochs: training accuracy {_accuracy(stored):.4f}", flush=True)
        if selected(tried):
            print(f"{args.regime}: {selected(tried)} epochs", flush=True)
            break


def baseline(base: Recipe, results: ResultStore, data_root: Path | None) -> dict[str, Any]:
    """Return the curve of the baseline and where it was trained, from the results if they have it."""
    job = job_of(base, "baseline", seed=0)
    if job in results:
        return {"curve": results[job].curve, "environment": results[job].environment}
    with tempfile.TemporaryDirectory() as folder:
        run = train(job.recipe, Path(folder) / "run", data_root=data_root)
        return {"curve": tracked_epochs(run.records()), "environment": run.info.environment}


def selected(tried: list[dict[str, Any]]) -> int | None:
    """Return the number of epochs that the rule selects, or None if it needs a longer candidate."""
    for one, following in zip(tried, [*tried[1:], None], strict=True):
        no_gain = following is not None and _accuracy(following) - _accuracy(one) < NO_GAIN
        if _accuracy(one) >= ENOUGH or no_gain or one["epochs"] == EPOCHS[-1]:
            return int(one["epochs"])
    return None


def _accuracy(one: dict[str, Any]) -> float:
    return float(one["curve"][-1]["train"]["accuracy"])


if __name__ == "__main__":
    main()
