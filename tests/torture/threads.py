"""Sampling in threads: each call is right or refused, and torch is sound afterwards."""

from __future__ import annotations

import copy
import sys
import threading

import torch
from torch import Tensor, nn

import singleshot as ss
from torture.tally import Tally

CALLS = 40


def sampling_threads(tally: Tally) -> None:
    """Sample, explain and run models of random shapes in several threads at once."""
    random = tally.random
    torch.manual_seed(random.randrange(2**32))
    sys.setswitchinterval(random.choice([1e-6, 1e-5, 5e-3]))
    width = random.choice([4, 8, 16])
    layers = [nn.Linear(4, width), nn.ReLU(), nn.Dropout(0.5), nn.Linear(width, width), nn.Dropout(0.3)]
    shared = nn.Sequential(*layers, nn.Linear(width, 3)).eval()
    x = torch.randn(5, 4)
    seeds = [random.randrange(1000) for _ in range(3)]
    plain = shared(x).detach()
    expected = {seed: ss.sample(shared, x, samples=3, seed=seed).detach() for seed in seeds}

    def check(found: Tensor, right: Tensor, what: str) -> None:
        assert torch.equal(found.detach(), right), f"wrong values from {what}"

    def job(model: nn.Module, may_be_refused: bool, order: list[int]) -> None:
        for number in order:
            seed = seeds[number % len(seeds)]
            with tally_lock, tally.case(f"call {number} of seed {seed}, shared: {may_be_refused}"):
                pass
            try:
                if number % 3 == 0:
                    check(ss.sample(model, x, samples=3, seed=seed), expected[seed], "sample")
                elif number % 3 == 1:
                    check(model(x), plain, "a plain pass")
                else:
                    ss.explain(model, x, samples=2)
                    with ss.stochastic(model):
                        model(x)
            except Exception as error:
                if not (may_be_refused and isinstance(error, RuntimeError) and "being sampled" in str(error)):
                    with tally_lock:
                        tally.failures.append(f"{threading.current_thread().name}: {type(error).__name__}: {error}")

    tally_lock = threading.Lock()
    orders = [[random.randrange(30) for _ in range(CALLS)] for _ in range(4)]
    models = [copy.deepcopy(shared), copy.deepcopy(shared), shared, shared]
    started = [
        threading.Thread(target=job, args=(model, model is shared, order))
        for model, order in zip(models, orders, strict=True)
    ]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    with tally.case("afterwards"):
        assert not any(part.training or "forward" in vars(part) for model in models for part in model.modules())
        check(shared(x), plain, "the shared model afterwards")
        assert nn.Linear(3, 3)(torch.zeros(1, 3)).shape == (1, 3)
