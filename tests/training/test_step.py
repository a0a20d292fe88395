from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, get_args
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import singleshot as ss
from singleshot import uncertainty
from singleshot.common import checks
from singleshot.common.loss_names import LossName
from singleshot.losses import terms
from singleshot.models import SmallCNN, create_model
from singleshot.training import step
from singleshot.training.distributed import Processes
from singleshot.training.recipe import AlphaName, MemoryName, Recipe
from singleshot.training.step import CROSS_ENTROPY, DivergedError, Stepper, StochasticPasses, loss_and_alpha


def batch(rows: int = 16) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(rows, 1, 8, 8, generator=generator), torch.randint(0, 10, (rows,), generator=generator)


def stepper(**options: Any) -> Stepper:
    torch.manual_seed(0)
    return Stepper(
        SmallCNN(10, dropout=0.3), Recipe(**{"model": "vgg16", "loss": "vwci", **options}).resolved(), Processes()
    )


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": ss.cross_entropy_loss,
    "label_smoothing": lambda z, y: ss.label_smoothing_loss(z, y, label_smoothing=0.2),
    "ci": lambda z, y: ss.ci_loss(z, y, beta=0.3),
    "entropy_ci": lambda z, y: ss.entropy_ci_loss(z, y, gamma=0.4),
    "focal": lambda z, y: ss.focal_loss(z, y, gamma=2.0),
    "vwci": lambda z, y: ss.vwci_loss(z, y, measure="hellinger", differentiate_alpha=True),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_step_is_sgd_on_the_loss(loss: str) -> None:
    for samples in (None, 3):
        check_step(loss, samples)


def check_step(loss: str, samples: int | None) -> None:
    options = {"label_smoothing": 0.2, "beta": 0.3, "gamma": 0.4, "focus": 2.0, "measure": "hellinger"}
    ours = stepper(loss=loss, samples=samples, weight_decay=0.01, differentiate_alpha=True, **options)
    by_hand = stepper().model
    images, labels = batch()
    torch.manual_seed(1)
    result = ours.advance(images, labels, 0.05)

    passes = ours.recipe.passes
    assert passes == (samples or (5 if loss == "vwci" else 1))
    torch.manual_seed(1)
    logits = ss.sample(by_hand, images, samples=passes) if passes > 1 else by_hand(images)[None]
    value = LOSSES[loss](logits, labels)
    value.backward()  # type: ignore[no-untyped-call]
    for expected, found in zip(by_hand.parameters(), ours.model.parameters(), strict=True):
        assert expected.grad is not None
        torch.testing.assert_close(found.grad, expected.grad)
        moved = expected.detach() - 0.05 * (expected.grad + 0.01 * expected.detach())
        torch.testing.assert_close(found.detach(), moved)
    assert result.loss == pytest.approx(value.item(), rel=1e-5)
    assert result.accuracy == pytest.approx(
        (logits.softmax(-1).mean(0).argmax(-1) == labels).double().mean().item(), abs=1e-6
    )
    if passes == 1:
        assert result.alpha is None
    else:
        expected_alpha = ss.normalized_variance(logits.detach(), measure="hellinger").mean().item()
        assert result.alpha == pytest.approx(expected_alpha, rel=1e-4)


def test_gradients_are_clipped_to_the_norm() -> None:
    clipped = stepper(clip_gradient=0.01)
    clipped.advance(*batch(), 0.1)
    total = sum(parameter.grad.square().sum() for parameter in clipped.model.parameters() if parameter.grad is not None)
    assert float(total) ** 0.5 == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("readable", [True, False])
def test_divergence_raises_before_the_update(readable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not readable:
        as_on_a_gpu(monkeypatch)
    for poison in (float("nan"), float("inf"), -float("inf")):
        ours = stepper()
        before = weights(ours.model)
        images, labels = batch()
        images[3] = poison
        with pytest.raises(DivergedError):
            ours.advance(images, labels, 0.1)
        after = weights(ours.model)
        trained = dict(ours.model.named_parameters())
        assert all(torch.equal(before[name], after[name]) for name in trained)
        assert ours.is_finite()
        with torch.no_grad():
            next(iter(trained.values())).view(-1)[0] = poison
        assert not ours.is_finite()


def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the checks of values, as on a device where reading them synchronises."""
    for module in (checks, uncertainty, terms, step):
        monkeypatch.setattr(module, "values_can_be_read", lambda tensor: False)


class CountReads(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations that read a single value from a device."""

    reads = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.reads += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("loss", get_args(LossName))
def test_a_step_reads_the_device_once_and_computes_alpha_once(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_on_a_gpu(monkeypatch)
    measure = Mock(wraps=uncertainty.MEASURES["bhattacharyya"])
    monkeypatch.setitem(uncertainty.MEASURES, "bhattacharyya", measure)
    tolist = Mock(side_effect=Tensor.tolist)
    monkeypatch.setattr(Tensor, "tolist", lambda tensor: tolist(tensor))  # noqa: PLW0108
    ours = stepper(loss=loss, samples=3, clip_gradient=1.0)
    images, labels = batch()
    ours.advance(images, labels, 0.1)  # the first step sets up the optimizer
    measure.reset_mock()
    tolist.reset_mock()
    with CountReads() as counter:  # type: ignore[no-untyped-call]
        result = ours.advance(images, labels, 0.1)
    assert result.alpha is not None
    assert (measure.call_count, tolist.call_count, counter.reads) == (1, 1, 0)


@pytest.mark.parametrize(("precision", "memory"), [("float32", "low"), ("bfloat16", "normal"), ("float16", "low")])
def test_the_loss_decreases_in_every_precision(precision: str, memory: str) -> None:
    ours = stepper(precision=precision, memory=memory)
    images, labels = batch()
    results = [ours.advance(images, labels, 0.1) for _ in range(30)]
    assert results[-1].loss < 0.7 * results[0].loss
    assert all(parameter.dtype == torch.float32 for parameter in ours.model.parameters())
    assert (ours.scaler.get_scale() > 1) == (precision == "float16")


def test_memory_layouts_and_low_memory_give_the_same_gradients() -> None:
    images, labels = batch()
    grads = []
    for options in ({}, {"channels_last": False}, {"memory": "low"}):
        ours = stepper(**{**options, "samples": 2})
        with torch.no_grad():
            for module in ours.model.modules():
                if isinstance(module, nn.Dropout):
                    module.p = 1e-9  # negligible noise: strategies draw random numbers in different orders
        ours.advance(images, labels, 0.0)
        grads.append([parameter.grad for parameter in ours.model.parameters()])
    for other in grads[1:]:
        torch.testing.assert_close(grads[0], other, rtol=1e-4, atol=1e-6)


def test_a_compiled_network_gives_the_same_step(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def aot_only(model: nn.Module) -> None:
        """Compile without generating machine code, which would take a minute."""
        compiled.append(type(model).__name__)
        model._compiled_call_impl = torch.compile(model._call_impl, backend="aot_eager")

    monkeypatch.setattr(nn.Module, "compile", aot_only)
    plain, ours = stepper(loss="cross_entropy"), stepper(loss="cross_entropy", compile=True)
    for one in (plain, ours):
        for module in one.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
    results = [one.advance(*batch(), 0.1, cross_entropy=True) for one in (plain, ours)]
    assert compiled == ["SmallCNN"]
    assert results[0].loss == pytest.approx(results[1].loss, rel=1e-5)
    torch.testing.assert_close(weights(plain.model), weights(ours.model), rtol=1e-4, atol=1e-5)
    several = stepper(compile=True)
    assert several.advance(*batch(), 0.1).alpha is not None


def test_a_single_pass_needs_no_noise() -> None:
    passes = StochasticPasses(SmallCNN(10, dropout=0.0), Recipe())
    assert passes(batch()[0], 1).shape == (1, 16, 10)
    with pytest.raises(ValueError, match="noise"):
        passes(batch()[0], 2)


# Fields of a recipe and the loss they give, with values that are not the defaults.
OBJECTIVES: list[tuple[dict[str, Any], Callable[[Tensor, Tensor], Tensor]]] = [
    ({"loss": "cross_entropy"}, ss.cross_entropy_loss),
    ({"loss": "label_smoothing", "label_smoothing": 0.3}, partial(ss.label_smoothing_loss, label_smoothing=0.3)),
    ({"loss": "ci", "beta": 0.01}, partial(ss.ci_loss, beta=0.01)),
    ({"loss": "entropy_ci", "gamma": 0.7}, partial(ss.entropy_ci_loss, gamma=0.7)),
    ({"loss": "focal", "focus": 2.0}, partial(ss.focal_loss, gamma=2.0)),
    ({"loss": "vwci"}, ss.vwci_loss),
    (
        {"loss": "vwci", "measure": "total_variation", "differentiate_alpha": True},
        partial(ss.vwci_loss, measure="total_variation", differentiate_alpha=True),
    ),
]


def test_loss_and_alpha_follow_the_recipe() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(7) % 4
    for values, expected in OBJECTIVES:
        for samples in (3, None):
            recipe = Recipe(**values, samples=samples).resolved()
            assert recipe.passes == (samples or (5 if values["loss"] == "vwci" else 1))
            logits = torch.randn(recipe.passes, 7, 4, generator=generator, dtype=torch.float64).requires_grad_()
            loss, alpha = loss_and_alpha(logits, labels, recipe)
            wanted = expected(logits, labels)
            assert loss.item() == wanted.item(), values
            assert torch.equal(torch.autograd.grad(loss, logits)[0], torch.autograd.grad(wanted, logits)[0]), values
            if recipe.passes == 1:
                assert alpha is None
            else:
                assert alpha is not None
                assert not alpha.requires_grad
                torch.testing.assert_close(alpha, ss.normalized_variance(logits.detach(), measure=recipe.measure))
    assert CROSS_ENTROPY.passes == 1
    logits = torch.randn(1, 7, 4, generator=generator)
    loss, alpha = loss_and_alpha(logits, labels, CROSS_ENTROPY)
    assert alpha is None
    torch.testing.assert_close(loss, nn.functional.cross_entropy(logits[0], labels))


@pytest.mark.parametrize("memory", get_args(MemoryName))
def test_passes_of_a_network_are_float32_and_reach_its_weights(memory: MemoryName) -> None:
    torch.manual_seed(0)
    network = create_model("vgg16", num_classes=4, in_channels=1, width=0.03125)
    images, labels = torch.randn(6, 1, 32, 32), torch.arange(6) % 4
    for passes in (1, 3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = StochasticPasses(network, Recipe(memory=memory))(images, passes)
        assert logits.shape == (passes, 6, 4)
        assert logits.dtype == torch.float32
        recipe = Recipe(loss="vwci" if passes > 1 else "ci", samples=passes).resolved()
        gradients = torch.autograd.grad(loss_and_alpha(logits, labels, recipe)[0], list(network.parameters()))
        assert all(bool(gradient.isfinite().all()) for gradient in gradients)
        assert any(bool(gradient.any()) for gradient in gradients)
        assert passes == 1 or not torch.equal(logits[0], logits[1])  # dropout is on


def test_ablations_of_alpha_keep_its_mean_or_its_shape() -> None:
    logits = torch.randn(4, 32, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(32) % 5
    expected = ss.normalized_variance(logits)
    recipes = {name: Recipe(loss="vwci", samples=4, alpha=name).resolved() for name in get_args(AlphaName)}
    alphas = {name: loss_and_alpha(logits, labels, recipe)[1] for name, recipe in recipes.items()}
    torch.testing.assert_close(alphas["example"], expected)
    torch.testing.assert_close(alphas["batch_mean"], expected.mean().expand(32))
    permuted = alphas["permuted"]
    assert permuted is not None
    assert not torch.equal(permuted, expected)
    torch.testing.assert_close(permuted.sort().values, expected.sort().values)
    scaled, bold = alphas["scaled"], ss.normalized_variance(logits, measure="total_variation")
    assert scaled is not None
    torch.testing.assert_close(scaled.mean(), bold.mean())
    torch.testing.assert_close(scaled / scaled.mean(), expected / expected.mean())
    agreeing = logits[:1].expand(4, -1, -1)
    assert loss_and_alpha(agreeing, labels, recipes["scaled"])[1] == pytest.approx(0, abs=1e-6)


def test_a_strength_replaces_that_of_the_recipe() -> None:
    logits, labels = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 4
    expected = {
        "vwci": ss.vwci_loss(logits, labels, strength=0.3),
        "label_smoothing": ss.label_smoothing_loss(logits, labels, label_smoothing=0.3),
        "ci": ss.ci_loss(logits, labels, beta=0.3),
        "focal": ss.focal_loss(logits, labels, gamma=0.3),
    }
    for loss, value in expected.items():
        recipe = Recipe(loss=loss, samples=3, strength="auto").resolved()  # type: ignore[arg-type]
        assert torch.equal(loss_and_alpha(logits, labels, recipe, strength=0.3)[0], value), loss
