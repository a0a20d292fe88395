"""The samples are those of a plain loop, bit for bit, and their gradients to rounding."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from loop import both, loop
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from zoo import EVERYTHING, FOREIGN, build

import singleshot as ss

PASSES, ROWS = 4, 3


def with_statistics(model: nn.Module, x: Tensor) -> nn.Module:
    """The model in evaluation mode, after its batch norms have recorded something."""
    with torch.no_grad():
        for _ in range(2):
            model(x)
    return model.eval()


@pytest.mark.parametrize("name", EVERYTHING)
def test_samples_equal_the_loop_bit_for_bit(name: str) -> None:
    for training in (True, False):
        for mixed in (False, True):
            model, x = build(name, ROWS)
            if not training:
                model = with_statistics(model, x)
            with torch.autocast("cpu", torch.bfloat16) if mixed else nullcontext():
                (expected, _), (logits, _) = both(model, x, samples=PASSES)
            assert torch.equal(logits, expected), (training, mixed)
            if not name.startswith(("batch_depth", "resnet")):  # whose passes may toss the same coins
                assert not torch.equal(logits[0], logits[1])


@pytest.mark.parametrize("name", EVERYTHING)
def test_gradients_equal_those_of_the_loop(name: str) -> None:
    """In double precision: gradients that cancel out are nothing but rounding in single precision."""
    for training in (True, False):
        model, x = build(name, ROWS)
        model, x = model.double(), x.double() if x.is_floating_point() else x
        if not training:
            model = with_statistics(model, x)
        (expected, expected_gradients), (logits, gradients) = both(model, x, samples=PASSES)
        assert torch.equal(logits, expected)
        for gradient, wanted in zip(gradients, expected_gradients, strict=True):
            torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-9)


def test_batch_norm_records_a_shared_batch_once() -> None:
    for name in ("skip_cnn", "efficientnet", "resnet18", "vgg16"):
        model, x = build(name)
        once = copy.deepcopy(model)
        once(x)
        ss.sample(model, x, samples=PASSES)
        first = next(key for key in model.state_dict() if key.endswith("running_mean"))
        assert torch.equal(model.state_dict()[first], once.state_dict()[first])
        assert int(model.state_dict()[first.replace("running_mean", "num_batches_tracked")]) == 1
    model, x = build("wide_resnet16_8")  # noise comes before its second batch norm
    ss.sample(model, x, samples=PASSES)
    counts = {int(value) for key, value in model.state_dict().items() if key.endswith("num_batches_tracked")}
    assert counts == {1, PASSES}


def test_cumulative_batch_norm_records_a_shared_batch_once() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4, momentum=None), nn.Dropout(0.5), nn.Linear(4, 3))
    x = torch.randn(5, 4)
    ss.sample(model, x)
    torch.testing.assert_close(model.get_buffer("0.running_mean"), x.mean(0))


def test_every_change_between_calls_is_seen() -> None:
    for name in FOREIGN:
        model, x = build(name)
        ss.sample(model, x, samples=2)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.5)
        for training, rows in ((True, 4), (False, 4), (True, 2)):
            (expected, _), (logits, _) = both(model.train(training), x[:rows], samples=2)
            assert torch.equal(logits, expected), (name, training, rows)


def test_nothing_is_shared_between_calls() -> None:
    model, x = build("mlp")
    first = ss.sample(model, x, seed=0)
    x.add_(1)
    assert not torch.equal(ss.sample(model, x, seed=0), first)


class Counted(nn.Module):
    """Custom code, which runs in every pass, around a layer that is shared."""

    def __init__(self) -> None:
        super().__init__()
        self.runs, self.inner = 0, nn.Linear(12, 8)

    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        out: Tensor = self.inner(x)
        return out


def test_custom_code_runs_in_every_pass_and_what_is_shared_once() -> None:
    for gradient_passes in (None, 1):
        counted, shared = Counted(), [0]

        def forward(x: Tensor, layer: nn.Linear = counted.inner, shared: list[int] = shared) -> Tensor:
            shared[0] += 1
            return nn.Linear.forward(layer, x)

        vars(counted.inner)["forward"] = forward
        model = nn.Sequential(counted, nn.Dropout(0.5), nn.Linear(8, 3))
        ss.sample(model, torch.randn(2, 12), samples=PASSES, gradient_passes=gradient_passes)
        assert (counted.runs, shared) == (PASSES, [1])


def test_equal_calls_in_one_pass_make_separate_tensors() -> None:
    class Equal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.drop, self.head = nn.Linear(12, 8), nn.Dropout(0.5), nn.Linear(8, 5)

        def forward(self, x: Tensor) -> Tensor:
            first, second = torch.zeros(8), torch.zeros(8)
            first += 1
            h, again = self.stem(x), self.stem(x)
            again.mul_(3)
            logits: Tensor = self.head(self.drop(h + second) + again.clone() + h.clone().add_(first))
            return logits

    (expected, _), (logits, _) = both(Equal(), torch.randn(4, 12))
    assert torch.equal(logits, expected)


def test_weights_that_change_between_passes_are_seen() -> None:
    class Changing(nn.Module):
        def __init__(self, way: str) -> None:
            super().__init__()
            self.way = way
            self.stem, self.drop, self.head = nn.Linear(12, 8), nn.Dropout(0.5), nn.Linear(8, 5)
            self.norm = nn.BatchNorm1d(8)

        def forward(self, x: Tensor) -> Tensor:
            if self.way == "written":
                with torch.no_grad():
                    self.stem.weight.add_(torch.randn_like(self.stem.weight))
            elif self.way == "replaced":
                self.stem.weight.data = torch.randn_like(self.stem.weight)
            elif self.way == "functional":
                noisy = {name: nn.functional.dropout(value, 0.5) for name, value in self.stem.named_parameters()}
                return self.head(self.drop(torch.func.functional_call(self.stem, noisy, (x,))))  # type: ignore[no-any-return]
            h = self.norm(self.stem(x))
            logits: Tensor = self.head(self.drop(h))
            return logits

    for way in ("written", "replaced", "functional"):
        model, x = Changing(way), torch.randn(4, 12)
        twin = copy.deepcopy(model)
        with torch.no_grad():
            torch.manual_seed(1)
            expected = loop(twin, x, samples=4)
            torch.manual_seed(1)
            assert torch.equal(ss.sample(model, x, samples=4), expected), way


def test_hooks_run_in_every_pass() -> None:
    for name in ("mlp", "resnet18", "wide_resnet16_8", "efficientnet"):
        model, x = build(name)
        seen: list[nn.Module] = []
        first = next(module for module in model.modules() if isinstance(module, (nn.Conv2d, nn.Linear)))
        container = next(iter(model.children()))
        for module in {first, container}:
            module.register_forward_hook(lambda module, args, output, seen=seen: seen.append(module))
        (expected, _), (logits, _) = both(model, x, samples=2)
        assert torch.equal(logits, expected)
        assert seen.count(first) == 2
        handle = model.register_forward_hook(lambda module, args, output: output * 2)
        (expected, _), (logits, _) = both(model, x, samples=2)
        assert torch.equal(logits, expected)
        handle.remove()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> Tensor:
        return grad * 2


class Composed(nn.Module):
    """Custom code between the layers."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.stem, self.drop, self.head = nn.Linear(12, 8), nn.Dropout(0.5), nn.Linear(8, 5)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Tensor:
        if self.way == "custom function":
            h = self.drop(Doubled.apply(Doubled.apply(self.stem(x))))  # type: ignore[no-untyped-call]
        elif self.way == "checkpoint":
            h = checkpoint(lambda x: self.drop(self.norm(self.stem(x))), x, use_reentrant=False)
        elif self.way == "reentrant checkpoint":
            h = checkpoint(lambda x: self.drop(self.stem(x)), x.clone().requires_grad_(), use_reentrant=True)
        elif self.way == "frozen":
            with torch.no_grad():
                h = self.stem(x)
            h = self.drop(h)
        elif self.way == "frozen and not":
            with torch.no_grad():
                h = self.stem(x)
            h = self.drop(self.stem(x)) + h
        elif self.way == "autocast inside":
            with torch.autocast("cpu", torch.bfloat16):
                h = self.stem(x)
            h = self.drop(h.float() + self.stem(x))
        elif self.way == "properties":
            h = self.drop(self.stem(x).T.mT.data + self.stem.weight.T.sum())
        elif self.way == "scalars":
            h = self.stem(x)
            h = self.drop(h * h.detach().mean().item() if h.sum().item() < 1e6 else h)
        elif self.way == "lists":
            h = torch.cat([self.drop(part) for part in self.stem(x).chunk(2, 1)], dim=1)
        else:
            h = torch.stack([self.drop(row) for row in self.stem(x)])
        logits: Tensor = self.head(h)
        return logits


@pytest.mark.parametrize(
    "way",
    [
        "custom function", "checkpoint", "reentrant checkpoint", "frozen", "frozen and not", "autocast inside",
        "properties", "scalars", "lists", "rows",
    ],
)  # fmt: skip
def test_code_between_layers_does_what_it_does_in_a_loop(way: str) -> None:
    torch.manual_seed(0)
    (expected, expected_gradients), (logits, gradients) = both(Composed(way), torch.randn(4, 12))
    assert torch.equal(logits, expected)
    rounding = 2e-2 if way == "autocast inside" else 1e-5  # the gradients of four passes are added up in bfloat16
    for gradient, wanted in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, wanted, rtol=rounding, atol=rounding)


def test_lazy_modules_are_initialised_by_the_first_pass() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.Dropout(0.5), nn.LazyLinear(3))
    assert ss.sample(model, torch.randn(2, 4)).shape == (5, 2, 3)


def test_inference_mode() -> None:
    for name in ("mlp", "skip_cnn", "efficientnet", "bert"):
        model, x = build(name)
        model.eval()
        with torch.inference_mode():
            torch.manual_seed(1)
            expected = loop(model, x, samples=3)
            torch.manual_seed(1)
            assert torch.equal(ss.sample(model, x, samples=3), expected)


def test_a_seed_or_a_generator_gives_the_same_samples_again() -> None:
    for name in ("mlp", "skip_cnn", "resnet18"):
        model, x = build(name)
        for memory in ("normal", "low"):
            state = torch.get_rng_state()
            first = ss.sample(model, x, seed=3, memory=memory)
            assert torch.equal(torch.get_rng_state(), state)
            assert torch.equal(ss.sample(model, x, seed=3, memory=memory), first)
            assert not torch.equal(ss.sample(model, x, seed=4, memory=memory), first)
        generator = torch.Generator().manual_seed(3)
        assert torch.equal(ss.sample(model, x, generator=generator), first)
        assert not torch.equal(ss.sample(model, x, generator=generator), first)  # it has advanced
        assert torch.equal(torch.get_rng_state(), state)
        ss.sample(model, x)
        assert not torch.equal(torch.get_rng_state(), state)  # as in a loop


def test_gradient_passes_are_the_first_and_have_the_gradients_of_a_loop() -> None:
    for name in ("mlp", "skip_cnn", "resnet18", "wide_resnet16_8", "bert"):
        for memory in ("normal", "low"):
            model, x = build(name)
            model, x = model.double(), x.double() if x.is_floating_point() else x
            twin = copy.deepcopy(model)
            torch.manual_seed(2)
            expected = loop(twin, x, samples=1)
            with torch.no_grad():
                others = loop(twin, x, samples=2)
            expected = torch.cat([expected, others])
            torch.manual_seed(2)
            logits = ss.sample(model, x, samples=3, gradient_passes=1, memory=memory)
            torch.testing.assert_close(logits, expected)
            logits[1:].sum().backward(retain_graph=True)  # type: ignore[no-untyped-call]
            assert all(parameter.grad is None or not parameter.grad.any() for parameter in model.parameters())
            logits.square().mean(0).sum().backward()  # type: ignore[no-untyped-call]
            expected[:1].square().mean(0).sum().backward()  # type: ignore[no-untyped-call]
            for ours, wanted in zip(model.parameters(), twin.parameters(), strict=True):
                torch.testing.assert_close(ours.grad, wanted.grad, rtol=1e-9, atol=1e-9)


def test_losses_of_some_gradient_passes_have_the_gradient_of_their_mean() -> None:
    """The weight of each example comes from all passes, its cross-entropy from those with gradients."""
    model, x = build("mlp")
    model, x, labels = model.double(), x.double(), torch.arange(len(x)) % 3
    for carrying in (1, 2, 4):
        torch.manual_seed(2)
        logits = loop(model, x, samples=4)
        alpha = ss.normalized_variance(logits.detach())
        expected = {
            ss.vwci_loss: lambda one: label_smoothing(one, labels, alpha),  # noqa: B023
            ss.cross_entropy_loss: lambda one: nn.functional.cross_entropy(one, labels),
        }
        for loss, of_one_pass in expected.items():
            torch.manual_seed(2)
            logits = loop(model, x, samples=4)
            mean = torch.stack([of_one_pass(one) for one in logits[:carrying]]).mean()  # type: ignore[no-untyped-call]
            wanted = torch.autograd.grad(mean, list(model.parameters()))
            for memory in ("normal", "low"):
                torch.manual_seed(2)
                ours = loss(ss.sample(model, x, samples=4, gradient_passes=carrying, memory=memory), labels)
                for parameter in model.parameters():
                    parameter.grad = None
                ours.backward()  # type: ignore[no-untyped-call]
                for parameter, gradient in zip(model.parameters(), wanted, strict=True):
                    torch.testing.assert_close(parameter.grad, gradient, rtol=1e-9, atol=1e-12)


def label_smoothing(logits: Tensor, labels: Tensor, alpha: Tensor) -> Tensor:
    target = nn.functional.one_hot(labels, logits.shape[1]) * (1 - alpha[:, None]) + alpha[:, None] / logits.shape[1]
    return nn.functional.cross_entropy(logits, target)


def test_the_gradient_of_one_pass_equals_finite_differences() -> None:
    """With fixed masks: the loss of the passes with gradients, as a function of one weight."""
    model, x = build("mlp")
    model, x, labels = model.double(), x.double(), torch.arange(len(x)) % 3

    def logits_of_passes(**options: Any) -> Tensor:
        return ss.sample(model, x, samples=3, seed=4, **options)

    weight = next(model.parameters())
    alpha = ss.normalized_variance(logits_of_passes()).detach()
    ss.vwci_loss(logits_of_passes(gradient_passes=1), labels).backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    for position in ((0, 0), (1, 2)):
        values = []
        for change in (1e-6, -1e-6):
            with torch.no_grad():
                weight[position] += change
                values.append(float(label_smoothing(logits_of_passes()[0], labels, alpha)))
                weight[position] -= change
        assert float(weight.grad[position]) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-6, abs=1e-9)


def test_passes_without_gradients_have_none_even_if_they_equal_the_first() -> None:
    model, x = build("resnet18")
    for seed in range(20):
        logits = ss.sample(model, x, samples=3, gradient_passes=1, seed=seed)
        (gradient,) = torch.autograd.grad(logits[1:].sum(), next(model.parameters()), allow_unused=True)
        assert gradient is None or not gradient.any()


def test_some_gradient_passes_have_no_second_derivative() -> None:
    """The factor of the gradient would be applied twice: an error, not a wrong number."""
    model, x = build("mlp")
    weight = next(model.parameters())
    for gradient_passes, expectation in (
        (1, pytest.raises(RuntimeError, match="create_graph=True needs gradients in all passes")),
        (3, nullcontext()),
    ):
        loss = ss.sample(model, x, samples=3, gradient_passes=gradient_passes).square().mean()
        with expectation:
            (gradient,) = torch.autograd.grad(loss, weight, create_graph=True)
            torch.autograd.grad(gradient.square().sum(), weight)
