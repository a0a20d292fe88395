"""Models whose forward writes in place, keeps state, tosses coins in Python or looks across rows."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from loop import both, loop
from torch import Tensor, nn

import singleshot as ss
from singleshot.models import StochasticDepthBlock

ROWS = 4


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


def in_place_before_and_after(model: Treacherous, x: Tensor, shared: Tensor, noisy: Tensor) -> Tensor:
    """Noise reads a shared tensor in three states."""
    total = noisy
    for scale in (0.5, 2.0):
        shared.mul_(scale)
        total = total + model.drop(shared)
    logits: Tensor = model.head(total)
    return logits


def in_place_on_a_coin(model: Treacherous, x: Tensor, shared: Tensor, noisy: Tensor) -> Tensor:
    """Whether a shared tensor is written to depends on the pass, and it is read afterwards in any case."""
    hidden = shared + 0.5
    if torch.rand(()) < 0.5:
        hidden.mul_(2)
    logits: Tensor = model.head(hidden) + model.head(noisy)
    return logits


def in_place_on_another_coin(model: Treacherous, x: Tensor, shared: Tensor, noisy: Tensor) -> Tensor:
    hidden = shared + 0.5
    hidden.mul_(2) if torch.rand(()) < 0.5 else hidden.add_(1)
    if torch.rand(()) < 0.5:
        noisy = model.drop(hidden)
    hidden.sub_(1)
    logits: Tensor = model.head(hidden + noisy)
    return logits


def noise_through_an_index(model: Treacherous, x: Tensor, shared: Tensor, noisy: Tensor) -> Tensor:
    hidden = shared + 0.5
    hidden[:, 0] = noisy[:, 0]
    row = int(torch.randint(0, len(x), ()))
    hidden[row] = hidden[row] + 1
    logits: Tensor = model.head(hidden)
    return logits


def noise_through_an_expanded_view(model: Treacherous, x: Tensor, shared: Tensor, noisy: Tensor) -> Tensor:
    hidden = shared + 0.5
    hidden.expand_as(noisy).detach().add_(1)
    logits: Tensor = model.head(hidden) + model.head(noisy)
    return logits


def two_halves(model: Treacherous, x: Tensor, shared: Tensor, noisy: Tensor) -> Tensor:
    first, second = model.head(model.drop(torch.cat([shared, shared.flip(1)]))).chunk(2)
    result: Tensor = (first + 2 * second) / 3
    return result


def read_before_counted(model: Treacherous, x: Tensor, shared: Tensor, noisy: Tensor) -> Tensor:
    """A buffer is read, by calls that passes could share, before it is written to."""
    scaled = shared * (model.count + 1)
    model.count.add_(1)
    logits: Tensor = model.head(noisy + scaled)
    return logits


def weights_changed(model: Treacherous, x: Tensor, shared: Tensor, noisy: Tensor) -> Tensor:
    logits: Tensor = model.head(noisy)
    with torch.no_grad():
        model.count.copy_(logits.sum())
    return logits + model.count


def reseeded(model: Treacherous, x: Tensor, shared: Tensor, noisy: Tensor) -> Tensor:
    logits: Tensor = model.head(noisy) + torch.randn(5, generator=torch.Generator().manual_seed(len(x)))
    return logits


def keeps_something(model: Treacherous, x: Tensor, shared: Tensor, noisy: Tensor) -> Tensor:
    model.kept.append(noisy)
    logits: Tensor = model.head(noisy)
    return logits


def counts_calls(model: Treacherous, x: Tensor, shared: Tensor, noisy: Tensor) -> Tensor:
    model.count.add_(1)
    logits: Tensor = model.head(noisy)
    return logits


TREACHEROUS: dict[str, Callable[[Treacherous, Tensor, Tensor, Tensor], Tensor]] = {
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
    "in place before and after": in_place_before_and_after,
    "in place on a coin": in_place_on_a_coin,
    "in place on another coin": in_place_on_another_coin,
    "noise into a shared tensor": lambda m, x, s, n: m.head(s.add_(n)),
    "noise through an index": noise_through_an_index,
    "noise through an expanded view": noise_through_an_expanded_view,
    "two halves": two_halves,
    "no_grad inside": no_grad_trunk,
    "counted calls": counts_calls,
    "counted calls that matter": lambda m, x, s, n: m.head(n) * m.count.add_(1).clone(),
    "read before counted": read_before_counted,
    "weights changed": weights_changed,
    "noise on weights": lambda m, x, s, n: F.linear(n, m.head.weight * torch.bernoulli(torch.full((5, 8), 0.5))),
    "reseeded": reseeded,
    "vmap": lambda m, x, s, n: m.head(torch.vmap(m.embed)(x) + n),
}


@pytest.mark.parametrize("name", TREACHEROUS)
def test_treacherous_models_equal_the_loop(name: str) -> None:
    x = torch.randn(ROWS, 6, generator=torch.Generator().manual_seed(1)).double()
    (expected, expected_gradients), (logits, gradients) = both(Treacherous(TREACHEROUS[name]).double(), x)
    assert torch.equal(logits, expected)
    for gradient, wanted in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-9)
    with torch.no_grad():
        model = Treacherous(TREACHEROUS[name]).eval()
        for seed in range(5):  # other coins, other ways through the code
            torch.manual_seed(seed)
            twin = copy.deepcopy(model)
            expected = loop(twin, x.float(), samples=6)
            torch.manual_seed(seed)
            assert torch.equal(ss.sample(model, x.float(), samples=6), expected)
            for ours, wanted in zip(model.buffers(), twin.buffers(), strict=True):
                assert torch.equal(ours, wanted)
    with torch.inference_mode():  # where tensors have no versions
        model = Treacherous(TREACHEROUS[name])
        torch.manual_seed(0)
        expected = loop(copy.deepcopy(model), x.float(), samples=4)
        torch.manual_seed(0)
        assert torch.equal(ss.sample(model, x.float(), samples=4), expected)


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


def test_python_code_runs_in_every_pass_that_reaches_it() -> None:
    x = torch.randn(ROWS, 6)
    model = Treacherous(keeps_something)
    ss.sample(model, x, samples=3)
    assert len(model.kept) == 3
    before = model.count.clone()
    ss.explain(Treacherous(counts_calls), x)
    assert torch.equal(model.count, before)


def test_coins_tossed_inside_a_module_without_noise_layers() -> None:
    class Coin(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 100 if random.random() < 0.5 else x

    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), Coin(), nn.Dropout(0.1), nn.Linear(8, 5))
    random.seed(0)
    torch.manual_seed(0)
    expected = loop(copy.deepcopy(model), torch.ones(ROWS, 6), samples=20)
    random.seed(0)
    torch.manual_seed(0)
    assert torch.equal(ss.sample(model, torch.ones(ROWS, 6), samples=20), expected)
    assert int(model.get_buffer("1.num_batches_tracked")) <= 2  # the first pass ran it together with the coin


def test_state_kept_in_a_module_without_noise() -> None:
    class Alternating(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.register_buffer("average", torch.zeros(8))

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            self.average.mul_(0.9).add_(x.detach().mean(0))  # type: ignore[operator]
            out: Tensor = x * self.calls + self.average  # type: ignore[operator]
            return out

    model = nn.Sequential(nn.Linear(6, 8), Alternating(), nn.Dropout(0.3), nn.Linear(8, 5))
    (expected, _), (logits, _) = both(model, torch.randn(ROWS, 6))
    assert torch.equal(logits, expected)


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


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
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
    for memory in ("normal", "low"):
        model.train()
        model.zero_grad()
        logits = ss.sample(model, x, samples=3, seed=0, memory=memory)
        model.eval()
        logits.square().sum().backward(retain_graph=True)  # type: ignore[no-untyped-call]
        logits.square().sum().backward()  # type: ignore[no-untyped-call]
        assert not any(module.training for module in model.modules())
        gradients.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    for low, plain in zip(*gradients, strict=True):
        torch.testing.assert_close(low, plain)


def test_a_block_that_is_always_kept_tosses_no_coin() -> None:
    """Its coin would be noise, and nothing behind it would be shared."""
    block = StochasticDepthBlock(nn.Linear(8, 8), nn.Identity(), survival=1.0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), block, nn.Dropout(0.5), nn.Linear(8, 5))
    assert ss.explain(model, torch.randn(ROWS, 6)).starts_at == "'3'"
