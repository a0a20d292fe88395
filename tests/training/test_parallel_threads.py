"""Training in one thread while others train, sample and evaluate: the weights are those of a run on its own."""

from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from running import tensors_of
from torch import nn

import singleshot as ss
from singleshot.training import Recipe, train

RECIPE = Recipe(
    dataset="digits",
    model="resnet18",
    width=0.03125,
    image_size=8,
    loss="vwci",
    samples=2,
    epochs=1,
    batch_size=64,
    train_images=640,
    validation=0.1,
    mirror=False,
)


def test_weights_and_seeds_hold_while_other_threads_sample_and_evaluate(tmp_path: Path) -> None:
    train(RECIPE, tmp_path / "alone")
    alone = tensors_of(tmp_path / "alone")
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3)).eval(), torch.randn(2, 4)
    expected, plain = ss.sample(model, x, samples=2, seed=1), model(x)

    def nll() -> float:
        calibration = ss.Calibration()
        calibration.update(logits=plain, labels=torch.tensor([0, 1]))
        return calibration.compute().nll

    scored = nll()
    finished = threading.Event()

    def sampling() -> int:
        own, rounds = copy.deepcopy(model), 0
        while not finished.is_set() or rounds < 100:
            assert torch.equal(ss.sample(own, x, samples=2, seed=1), expected)
            with ss.stochastic(own):
                own(x)
            assert torch.equal(own(x), plain)
            assert nll() == scored
            rounds += 1
        return rounds

    with ThreadPoolExecutor(3) as pool:
        sampled = pool.submit(sampling)
        runs = [pool.submit(train, RECIPE, tmp_path / name) for name in ("first", "second")]
        try:
            for run in runs:
                run.result(120)
        finally:
            finished.set()
        assert sampled.result(60) >= 100
    for name in ("first", "second"):
        found = tensors_of(tmp_path / name)
        assert found.keys() == alone.keys()
        assert all(torch.equal(found[key], alone[key]) for key in alone)
