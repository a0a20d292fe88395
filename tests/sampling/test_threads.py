"""Sampling in several threads: each call is right, or refused at once, and torch is sound afterwards."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn
from zoo import build

import singleshot as ss

ROUNDS = 100


def in_threads(*jobs: Callable[[], None]) -> None:
    """Run all jobs at once; an error in one of them is raised here."""
    barrier = threading.Barrier(len(jobs))

    def run(job: Callable[[], None]) -> None:
        barrier.wait()
        job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        for future in [pool.submit(run, job) for job in jobs]:
            future.result()


def test_models_in_threads_give_the_samples_of_their_seeds() -> None:
    models = [build(name) for name in ("mlp", "skip_cnn", "functional")]
    models[1][0].eval()
    expected = [ss.sample(copy.deepcopy(model), x, samples=3, seed=7) for model, x in models]
    plain, (_, x_plain) = nn.Sequential(nn.Linear(12, 4), nn.BatchNorm1d(4)).eval(), models[0]
    outputs = plain(x_plain)

    def sampling(number: int) -> Callable[[], None]:
        model, x = models[number]

        def run() -> None:
            for _ in range(ROUNDS):
                assert torch.equal(ss.sample(model, x, samples=3, seed=7), expected[number])

        return run

    def passing() -> None:
        for _ in range(10 * ROUNDS):
            assert torch.equal(plain(x_plain), outputs)

    in_threads(*(sampling(number) for number in range(3)), passing)
    assert nn.Linear(3, 3)(torch.zeros(1, 3)).shape == (1, 3)
    assert not any(module.training for module in models[1][0].modules())


class Slow(nn.Module):
    """Waits inside its forward until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.released = threading.Event(), threading.Event()
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.entered.set()
        assert self.released.wait(60)
        logits: Tensor = self.head(self.drop(x))
        return logits


@pytest.mark.parametrize("training", [True, False])
def test_one_model_in_two_threads_is_refused_at_once(training: bool) -> None:
    model, x = Slow().train(training), torch.randn(2, 4)
    with ThreadPoolExecutor(1) as pool:
        sampling = pool.submit(ss.sample, model, x)
        assert model.entered.wait(60)
        with pytest.raises(RuntimeError, match="already being sampled"):
            ss.sample(model, x)
        if not training:  # its noise is on for the other thread
            with pytest.raises(RuntimeError, match="being sampled by another thread"):
                model(x)
        model.released.set()
        assert sampling.result().shape == (5, 2, 3)
    assert {module.training for module in model.modules()} == {training}
    assert ss.sample(model, x).shape == (5, 2, 3)
