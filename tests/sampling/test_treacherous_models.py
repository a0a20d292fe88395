"""Models whose forward does more than a graph or a larger batch can show: sampling notices, and does it another way."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from injection import injected_masks
from torch import Tensor, nn

import singleshot as ss
from singleshot.models import StochasticDepthBlock

PASSES, ROWS = 3, 4


class Treacherous(nn.Module):
    """A small net with dropout whose last step is somebody's own code."""

    count: Tensor

    def __init__(self, last: Callable[[Treacherous, Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.drop, self.head = nn.Linear(6, 8), nn.Dropout(0.4), nn.Linear(8, 5)
        self.norm = nn.BatchNorm1d(8)
        self.config = {"scale": 1.0}
        self.kept: list[Tensor] = []
        self.register_buffer("count", torch.zeros(()))
        self.last = last

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        shared = self.embed(x)
        logits = self.last(self, x, shared, self.drop(shared))
        return logits if labels is None else logits * 100


def no_grad_trunk(model: Treacherous, x: Tensor, shared: Tensor, noisy: Tensor) -> Tensor:
    with torch.no_grad():
        frozen = model.embed(x)
    logits: Tensor = model.head(noisy + frozen)
    return logits


def in_place_afterwards(model: Treacherous, x: Tensor, shared: Tensor, noisy: Tensor) -> Tensor:
    rectified = F.relu(shared, inplace=True)
    logits: Tensor = model.head(noisy + rectified)
    return logits


def in_place_through_a_view(model: Treacherous, x: Tensor, shared: Tensor, noisy: Tensor) -> Tensor:
    view = shared.view(-1, 8)
    view += noisy
    logits: Tensor = model.head(model.norm(shared))
    return logits


def keeps_something(model: Treacherous, x: Tensor, shared: Tensor, noisy: Tensor) -> Tensor:
    model.kept.append(noisy)
    logits: Tensor = model.head(noisy)
    return logits


def counts_calls(model: Treacherous, x: Tensor, shared: Tensor, noisy: Tensor) -> Tensor:
    model.count.add_(1)
    logits: Tensor = model.head(noisy)
    return logits


ACROSS_ROWS: dict[str, Callable[[Treacherous, Tensor, Tensor, Tensor], Tensor]] = {
    "centred": lambda m, x, s, n: m.head(n) - m.head(n).mean(0),
    "normalised": lambda m, x, s, n: m.head(n) / m.head(n).norm(),
    "softmax over rows": lambda m, x, s, n: m.head(n).softmax(0),
    "counted rows": lambda m, x, s, n: m.head(n) / x.shape[0],
    "picked rows": lambda m, x, s, n: m.head(n)[torch.arange(x.shape[0], device=x.device)],
    "sorted rows": lambda m, x, s, n: m.head(n)[x[:, 0].argsort()],
    "attention over rows": lambda m, x, s, n: (n @ n.t()).softmax(1) @ m.head(n),
    "functional batch norm": lambda m, x, s, n: m.head(F.batch_norm(n, None, None, training=True)),
    "in place afterwards": in_place_afterwards,
    "in place through a view": in_place_through_a_view,
    "no_grad inside": no_grad_trunk,
}


@pytest.mark.filterwarnings("ignore:passes share no work")
@pytest.mark.parametrize("name", ACROSS_ROWS)
@pytest.mark.parametrize("rows", [ROWS, 2])
def test_what_is_done_across_rows_or_in_place_is_done_pass_by_pass(name: str, rows: int) -> None:
    model, x = Treacherous(ACROSS_ROWS[name]), torch.randn(rows, 6, generator=torch.Generator().manual_seed(1))
    ss.sample(model, x)
    results = []
    runs: list[Callable[[], Tensor]] = [
        lambda: torch.stack([model(x) for _ in range(PASSES)]),
        lambda: ss.sample(model, x, samples=PASSES),
    ]
    for run in runs:
        model.zero_grad()
        with injected_masks(model, PASSES, rows):
            logits = run()
        logits.square().sum().backward()  # type: ignore[no-untyped-call]
        results.append(
            (logits.detach(), [p.grad if p.grad is not None else torch.zeros(1) for p in model.parameters()])
        )
    (expected, expected_gradients), (logits, gradients) = results
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    for gradient, wanted in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=1e-3)


def test_rows_that_are_halves_of_examples_are_not_taken_for_examples() -> None:
    def two_halves(m: Treacherous, x: Tensor, s: Tensor, n: Tensor) -> Tensor:
        first, second = m.head(m.drop(torch.cat([s, s.flip(1)]))).chunk(2)
        result: Tensor = (first + 2 * second) / 3
        return result

    model, x = Treacherous(two_halves), torch.randn(ROWS, 6)
    assert not ss.explain(model, x).as_one_batch
    model.drop.p = 1e-12
    torch.testing.assert_close(ss.sample(model, x, samples=2), model(x).expand(2, ROWS, 5))


@pytest.mark.filterwarnings("ignore:passes share no work")
def test_coins_tossed_in_python_are_tossed_in_every_pass() -> None:
    def with_python(m: Treacherous, x: Tensor, s: Tensor, n: Tensor) -> Tensor:
        logits: Tensor = m.head(n)
        return logits + 100 if random.random() < 0.5 else logits

    def with_torch(m: Treacherous, x: Tensor, s: Tensor, n: Tensor) -> Tensor:
        logits: Tensor = m.head(n)
        return logits + 100 if torch.rand(1).item() < 0.5 else logits

    for last in (with_python, with_torch):
        logits = ss.sample(Treacherous(last), torch.randn(ROWS, 6), samples=60)
        heads = int((logits[:, 0, 0] > 50).sum())
        assert 10 < heads < 50


def test_noise_on_weights_is_drawn_for_every_pass() -> None:
    class DropConnect(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(6, 5))

        def forward(self, x: Tensor) -> Tensor:
            return x @ (self.weight * torch.bernoulli(torch.full_like(self.weight, 0.5)))

    model, x = DropConnect(), torch.randn(ROWS, 6)
    logits = ss.sample(model, x, samples=400, seed=0).detach()
    loop = ss.sample(model, x, samples=400, seed=1, strategy="loop").detach()
    assert float(logits.var(0).min()) > 0
    assert 0.7 < float(logits.var(0).mean() / loop.var(0).mean()) < 1.4


@pytest.mark.filterwarnings("ignore:passes share no work")
def test_the_trace_leaves_nothing_behind() -> None:
    x = torch.randn(ROWS, 6)
    keeping, counting = Treacherous(keeps_something), Treacherous(counts_calls)
    ss.explain(keeping, x)
    assert all(isinstance(value, Tensor) and not isinstance(value, torch.fx.Proxy) for value in keeping.kept)
    before = len(keeping.kept)
    ss.sample(keeping, x, samples=PASSES)
    assert len(keeping.kept) == before + PASSES
    ss.explain(counting, x)
    assert float(counting.count) == 0
    ss.sample(counting, x, samples=PASSES)
    assert float(counting.count) == PASSES


def test_optional_arguments_keep_their_defaults() -> None:
    model, x = Treacherous(lambda m, x, s, n: m.head(n)), torch.randn(ROWS, 6)
    assert ss.explain(model, x).as_one_batch
    model.drop.p = 1e-12
    torch.testing.assert_close(ss.sample(model, x, samples=2), model(x).expand(2, ROWS, 5))


@pytest.mark.filterwarnings("ignore:passes share no work")
def test_changes_after_the_first_call_are_seen() -> None:
    model, x = Treacherous(lambda m, x, s, n: m.head(n) * m.config["scale"]), torch.randn(ROWS, 6)
    before = ss.sample(model, x, seed=0)
    model.config["scale"] = 3.0
    torch.testing.assert_close(ss.sample(model, x, seed=0), 3 * before)
    handle = model.register_forward_hook(lambda module, args, output: output * 100)
    assert float(ss.sample(model, x, seed=0).detach().abs().mean() / before.detach().abs().mean()) > 100
    handle.remove()
    vars(model)["forward"] = lambda x: Treacherous.forward(model, x) * 7
    torch.testing.assert_close(ss.sample(model, x, seed=0), 21 * before)


def test_another_models_dropout_stays_off() -> None:
    model, teacher = (
        Treacherous(lambda m, x, s, n: m.head(n)).eval(),
        nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5)).eval(),
    )
    x = torch.randn(ROWS, 6)
    with ss.stochastic(model):
        assert torch.equal(teacher(x), teacher(x))
        assert not torch.equal(model(x), model(x))


def test_a_noise_layer_of_ones_own_can_say_so() -> None:
    class Gaussian(nn.Module):
        is_noise = True

        def forward(self, x: Tensor) -> Tensor:
            return x + torch.randn_like(x) if self.training else x

    model = nn.Sequential(nn.Linear(6, 8), Gaussian(), nn.Linear(8, 5)).eval()
    logits = ss.sample(model, torch.randn(ROWS, 6), samples=200, seed=0).detach()
    assert float(logits.var(0).min()) > 0
    assert torch.equal(model(torch.ones(1, 6)), model(torch.ones(1, 6)))


@pytest.mark.filterwarnings("ignore:passes share no work", "ignore:`torch.jit:DeprecationWarning")
def test_passes_that_cannot_differ_are_an_error() -> None:
    scripted = torch.jit.script(nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5)).eval())
    with pytest.raises(ValueError, match="has no noise"):
        ss.sample(scripted, torch.randn(ROWS, 6))
    everything = Treacherous(lambda m, x, s, n: F.dropout(m.head(n), 1.0, m.training))
    with pytest.raises(ValueError, match="has rate 1, which drops everything"):
        ss.sample(everything, torch.randn(ROWS, 6))


def test_low_memory_allows_several_backwards_and_a_change_of_mode() -> None:
    model = Treacherous(lambda m, x, s, n: m.head(m.norm(n)))
    x = torch.randn(ROWS, 6)
    gradients = []
    for options in ({"strategy": "loop"}, {"memory": "low"}):
        model.train()
        model.zero_grad()
        logits = ss.sample(model, x, samples=PASSES, seed=0, **options)
        model.eval()
        logits.square().sum().backward(retain_graph=True)  # type: ignore[no-untyped-call]
        logits.square().sum().backward()  # type: ignore[no-untyped-call]
        assert not any(module.training for module in model.modules())
        gradients.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    for low, plain in zip(*gradients, strict=True):
        torch.testing.assert_close(low, plain)


def test_a_block_that_is_always_kept_tosses_no_coin() -> None:
    """Its coin would be taken for noise that nobody knows of, and nothing would be shared."""
    block = StochasticDepthBlock(nn.Linear(8, 8), nn.Identity(), survival=1.0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), block, nn.Dropout(0.5), nn.Linear(8, 5))
    found = ss.explain(model, torch.randn(ROWS, 6))
    assert (found.strategy, found.as_one_batch) == ("shared", True)
