from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import singleshot as ss
from singleshot.models import SmallCNN
from singleshot.training.processes import Processes
from singleshot.training.recipe import Recipe
from singleshot.training.step import PLAIN, DivergedError, Stepper, StochasticPasses, objective_of


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
@pytest.mark.parametrize("samples", [None, 3])
def test_a_step_is_sgd_on_the_loss_by_hand(loss: str, samples: int | None) -> None:
    options = {"label_smoothing": 0.2, "beta": 0.3, "gamma": 0.4, "focus": 2.0, "measure": "hellinger"}
    ours = stepper(loss=loss, samples=samples, weight_decay=0.01, differentiate_alpha=True, **options)
    by_hand = stepper().model
    images, labels = batch()
    torch.manual_seed(1)
    result = ours.advance(images, labels, objective_of(ours.recipe), 0.05)

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
    clipped.advance(*batch(), objective_of(clipped.recipe), 0.1)
    total = sum(parameter.grad.square().sum() for parameter in clipped.model.parameters() if parameter.grad is not None)
    assert float(total) ** 0.5 == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf")])
def test_a_loss_that_is_no_number_raises_and_changes_no_weight(poison: float) -> None:
    ours = stepper()
    before = weights(ours.model)
    images, labels = batch()
    images[3] = poison
    with pytest.raises(DivergedError):
        ours.advance(images, labels, objective_of(ours.recipe), 0.1)
    after = weights(ours.model)
    trained = dict(ours.model.named_parameters())
    assert all(torch.equal(before[name], after[name]) for name in trained)
    assert ours.is_finite()
    with torch.no_grad():
        next(iter(trained.values())).view(-1)[0] = poison
    assert not ours.is_finite()


@pytest.mark.parametrize("memory", ["normal", "low"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_every_precision_learns(precision: str, memory: str) -> None:
    ours = stepper(precision=precision, memory=memory)
    images, labels = batch()
    results = [ours.advance(images, labels, objective_of(ours.recipe), 0.1) for _ in range(30)]
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
                    module.p = 1e-9  # noise that is there and does nothing: strategies draw in different orders
        ours.advance(images, labels, objective_of(ours.recipe), 0.0)
        grads.append([parameter.grad for parameter in ours.model.parameters()])
    for other in grads[1:]:
        torch.testing.assert_close(grads[0], other, rtol=1e-4, atol=1e-6)


def test_a_compiled_network_takes_the_same_step(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def aot_only(model: nn.Module) -> None:
        """All of compilation but the machine code, which would take a minute."""
        compiled.append(type(model).__name__)
        model._compiled_call_impl = torch.compile(model._call_impl, backend="aot_eager")

    monkeypatch.setattr(nn.Module, "compile", aot_only)
    plain, ours = stepper(loss="cross_entropy"), stepper(loss="cross_entropy", compile=True)
    for one in (plain, ours):
        for module in one.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
    results = [one.advance(*batch(), PLAIN, 0.1) for one in (plain, ours)]
    assert compiled == ["SmallCNN"]
    assert results[0].loss == pytest.approx(results[1].loss, rel=1e-5)
    torch.testing.assert_close(weights(plain.model), weights(ours.model), rtol=1e-4, atol=1e-5)
    several = stepper(compile=True)
    assert several.advance(*batch(), objective_of(several.recipe), 0.1).alpha is not None


def test_a_single_pass_needs_no_noise() -> None:
    quiet = StochasticPasses(SmallCNN(10, dropout=0.0), memory="normal", compiled=False)
    assert quiet(batch()[0], 1).shape == (1, 16, 10)
    with pytest.raises(ValueError, match="noise"):
        quiet(batch()[0], 2)


def test_replaced_recipes_are_checked_again() -> None:
    with pytest.raises(ValueError, match=r"samples must lie in \[2, 1000\] for vwci, got 1 \(--samples"):
        replace(Recipe(), samples=1).resolved()
