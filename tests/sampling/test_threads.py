"""Sampling in several threads: each call is right, or refused at once, and torch is sound afterwards."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from zoo import build

import singleshot as ss
from singleshot.sampling.state import GENERATOR_LOCK

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


def test_stochastic_passes_in_threads_disturb_no_seed_and_no_other_model() -> None:
    sampled, x = build("mlp")
    noisy, quiet = copy.deepcopy(sampled).eval(), copy.deepcopy(sampled).eval()
    expected, plain = ss.sample(copy.deepcopy(sampled), x, samples=3, seed=3), quiet(x)

    def seeded() -> None:
        for _ in range(ROUNDS):
            assert torch.equal(ss.sample(sampled, x, samples=3, seed=3), expected)

    def stochastic() -> None:
        for _ in range(ROUNDS):
            with ss.stochastic(noisy):
                assert not torch.equal(noisy(x), plain)
            assert torch.equal(noisy(x), plain)

    def passing() -> None:
        for _ in range(ROUNDS):
            assert torch.equal(quiet(x), plain)

    in_threads(seeded, stochastic, passing)


def test_calls_with_a_seed_get_their_turn_among_calls_without() -> None:
    model, x = build("mlp")
    others, finished = [copy.deepcopy(model) for _ in range(4)], threading.Event()

    def unseeded(other: nn.Module) -> None:
        while not finished.is_set():
            ss.sample(other, x, samples=3)

    def seeded() -> None:
        for _ in range(50):
            ss.sample(model, x, samples=3, seed=3)

    with ThreadPoolExecutor(5) as pool:
        sharing = [pool.submit(unseeded, other) for other in others]
        alone = pool.submit(seeded)
        try:
            alone.result(timeout=60)  # raises TimeoutError if they starve
        finally:
            finished.set()
        for future in sharing:
            future.result(timeout=60)


def test_a_call_inside_one_that_shares_does_not_wait_behind_a_call_with_a_seed() -> None:
    lock = GENERATOR_LOCK

    def alone() -> None:
        with lock.hold(alone=True):
            pass

    def nested() -> None:
        with ThreadPoolExecutor(1) as pool, lock.hold(alone=False):
            pool.submit(alone)
            while not lock._waiting:
                time.sleep(0.001)
            with lock.hold(alone=False), lock.hold(alone=True):
                assert lock._holders == 1

    thread = threading.Thread(target=nested, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize("seed", [None, 0])
def test_a_forward_that_waits_for_a_call_with_a_seed_in_another_thread_is_refused(
    seed: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("singleshot.sampling.state.MAX_WAIT", 0.1)
    other, x = build("mlp")

    class Waiting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x: Tensor) -> Tensor:
            return pool.submit(ss.sample, other, self.drop(x), seed=1).result(60)[0]

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(RuntimeError, match=r"has used torch's generator for 0\.1 seconds"):
            ss.sample(Waiting(), x, seed=seed)
        assert pool.submit(ss.sample, other, x, seed=1).result(60).shape[0] == 5
    assert ss.sample(other, x, seed=1).shape[0] == 5


def test_explain_in_threads_gives_one_answer_and_disturbs_no_seed() -> None:
    model, x = build("skip_cnn")
    others = [copy.deepcopy(model).eval() for _ in range(2)]
    explanation, expected = ss.explain(others[0], x, samples=3), ss.sample(copy.deepcopy(model), x, samples=2, seed=5)

    def explaining(other: nn.Module) -> Callable[[], None]:
        def run() -> None:
            for _ in range(ROUNDS):
                assert ss.explain(other, x, samples=3) == explanation

        return run

    def sampling() -> None:
        for _ in range(ROUNDS):
            assert torch.equal(ss.sample(copy.deepcopy(model), x, samples=2, seed=5), expected)

    in_threads(*map(explaining, others), sampling)


@pytest.mark.parametrize("first", [ss.stochastic, ss.sample, ss.explain])
def test_a_model_in_use_by_stochastic_is_refused_in_other_threads(first: Callable[..., object]) -> None:
    model, x = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3)).eval(), torch.randn(2, 4)
    other_model = nn.Sequential(model[0], nn.ReLU())  # has the same noise layer

    def refused(call: Callable[[], object]) -> None:
        with pytest.raises(RuntimeError, match=r"already being sampled|being sampled by another thread"):
            call()

    def enter() -> None:
        with ss.stochastic(model):
            pass

    call = enter if first is ss.stochastic else lambda: first(model, x)
    with ss.stochastic(model), ThreadPoolExecutor(1) as pool:
        for wrong in (call, lambda: model(x), lambda: model[0](x), lambda: other_model(x)):
            pool.submit(refused, wrong).result()
        assert ss.sample(model, x).shape == (5, 2, 3)  # this thread may
    assert not any(module.training for module in model.modules())
    assert torch.equal(model(x), copy.deepcopy(model)(x))


def test_a_pass_that_had_begun_before_its_noise_was_switched_on_is_right_or_refused() -> None:
    model, x = Slow().eval(), torch.randn(2, 4)
    with ThreadPoolExecutor(1) as pool:
        passing = pool.submit(model, x)
        assert model.entered.wait(60)
        with ss.stochastic(model):
            model.released.set()
            with pytest.raises(RuntimeError, match="being sampled by another thread"):
                passing.result()
    assert torch.equal(model(x), model.head(x))


def test_one_model_in_racing_threads_is_right_or_refused() -> None:
    model, x = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3)).eval(), torch.randn(2, 4)
    plain, expected = model(x), ss.sample(model, x, samples=2, seed=1)
    outcomes: list[str] = []

    def racing(call: Callable[[], Tensor], right: Tensor) -> Callable[[], None]:
        def run() -> None:
            for _ in range(ROUNDS):
                try:
                    assert torch.equal(call(), right)
                    outcomes.append("right")
                except RuntimeError as error:
                    assert "being sampled" in str(error)  # noqa: PT017
                    outcomes.append("refused")

        return run

    sampling = racing(lambda: ss.sample(model, x, samples=2, seed=1), expected)
    in_threads(sampling, sampling, racing(lambda: model(x), plain))
    assert len(outcomes) == 3 * ROUNDS
    assert "right" in outcomes
    assert not any(module.training or "forward" in vars(module) for module in model.modules())


def test_a_copy_made_while_the_noise_is_on_can_be_used_in_other_threads() -> None:
    model, x = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3)).eval(), torch.randn(2, 4)
    with ss.stochastic(model):
        duplicate = copy.deepcopy(model)
    with ThreadPoolExecutor(1) as pool:
        assert torch.equal(pool.submit(duplicate.eval(), x).result(), model(x))


def test_no_call_patches_torch_or_a_class() -> None:
    """The attributes of torch, its functions and its module classes are the same objects during and after a call."""
    classes = [nn.Module, nn.Linear, nn.Dropout, nn.BatchNorm2d, nn.Sequential, Tensor]
    places = [torch, F, nn.modules.module, torch.nn.init, *classes]

    def attributes() -> list[dict[str, int]]:
        return [{name: id(value) for name, value in vars(place).items()} for place in places]

    seen: list[list[dict[str, int]]] = []

    class Watching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop, self.head = nn.Dropout(0.5), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            seen.append(attributes())
            logits: Tensor = self.head(self.drop(F.dropout(x, 0.1, self.training)))
            return logits

    model, x = Watching().eval(), torch.randn(2, 4)
    model(x)
    before = seen.pop()
    ss.sample(model, x, seed=0)
    ss.sample(model, x, seed=0, memory="low")
    ss.explain(model, x)
    with ss.stochastic(model):
        model(x)
    assert len(seen) == 16
    assert all(found == before for found in [*seen, attributes()])
