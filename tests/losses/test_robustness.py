"""Gradients, dtypes, autocast, compilation and invalid input of every loss."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import singleshot as ss
from singleshot.losses.vwci import vwci_loss_and_alpha
from singleshot.uncertainty import MEASURES

Loss = Callable[..., Tensor]

GAMMA = ss.AdaptiveGamma(bins=5)
GAMMA.gammas = torch.tensor([0.5, 3.0, -0.5, -2.0, 0.2], dtype=torch.float64)
LOSSES: dict[str, Loss] = {
    "cross_entropy": ss.cross_entropy_loss,
    "label_smoothing": lambda z, y, **kw: ss.label_smoothing_loss(z, y, label_smoothing=0.1, **kw),
    "ci": lambda z, y, **kw: ss.ci_loss(z, y, beta=0.1, **kw),
    "entropy_ci": lambda z, y, **kw: ss.entropy_ci_loss(z, y, gamma=0.1, **kw),
    "focal": lambda z, y, **kw: ss.focal_loss(z, y, gamma=3.0, **kw),
    "flsd": ss.flsd_loss,
    "dual_focal": ss.dual_focal_loss,
    "adafocal": lambda z, y, **kw: ss.adafocal_loss(z, y, gamma=GAMMA, **kw),
    "mmce": ss.mmce_loss,
    "mdca": ss.mdca_loss,
    "dca": ss.dca_loss,
    "soft_ece": ss.soft_ece_loss,
    "margin_smoothing": lambda z, y, **kw: ss.margin_smoothing_loss(z, y, margin=1.0, **kw),
    "brier": ss.brier_loss,
    "focal_root": lambda z, y, **kw: ss.focal_loss(z, y, gamma=0.5, **kw),
    "vwci": ss.vwci_loss,
    "vwci_differentiated": lambda z, y, **kw: ss.vwci_loss(z, y, differentiate_alpha=True, **kw),
}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def batch(passes: int = 3, examples: int = 4, classes: int = 5, scale: float = 2.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(passes, examples, classes, dtype=torch.float64, generator=generator) * scale
    return logits, torch.randint(0, classes, (examples,), generator=generator)


@pytest.mark.parametrize("kind", sorted(MEASURES))
def test_vwci_gradients_with_a_differentiated_and_a_fixed_alpha(kind: str) -> None:
    logits, labels = batch()
    for scale in (1e30, 3.4e38):
        huge = (logits.sign() * scale).float().requires_grad_()
        value = ss.vwci_loss(huge, labels, measure=kind, differentiate_alpha=True)
        assert bool(torch.isfinite(value))
        assert bool(torch.isfinite(torch.autograd.grad(value, huge)[0]).all())
    fixed = ss.normalized_variance(logits, measure=kind)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda z: ss.vwci_loss(z, labels, measure=kind, differentiate_alpha=True, reduction="none"), logits
    )

    def with_fixed_alpha(z: Tensor) -> Tensor:
        return ss.vwci_loss(z, labels, measure=lambda _: fixed)

    assert torch.autograd.gradcheck(with_fixed_alpha, logits)
    detached = torch.autograd.grad(ss.vwci_loss(logits, labels, measure=kind), logits)[0]
    torch.testing.assert_close(detached, torch.autograd.grad(with_fixed_alpha(logits), logits)[0], rtol=0, atol=1e-14)


@every_loss
def test_gradcheck_with_weights_and_ignored_labels(loss: Loss) -> None:
    logits, labels = batch()
    labels[1] = -100
    weight = torch.tensor([0.2, 1.0, 3.0, 0.5, 1.5], dtype=torch.float64)
    alpha = ss.normalized_variance(logits)
    logits.requires_grad_()
    if loss is ss.vwci_loss:  # finite differences would change α, so it is held constant

        def loss(z: Tensor, y: Tensor, **kw: Tensor) -> Tensor:
            return ss.vwci_loss(z, y, measure=lambda _: alpha, weight=kw["weight"])

    assert torch.autograd.gradcheck(lambda z: loss(z, labels, weight=weight), logits)


@every_loss
def test_huge_logits_and_half_precision(loss: Loss) -> None:
    logits, labels = batch()
    for dtype, scale in (
        (torch.float64, 1.7e308),
        (torch.float32, 1e30),
        (torch.float32, 3.4e38),
        (torch.float16, 6e4),
    ):
        huge = (logits.sign() * scale).to(dtype).requires_grad_()
        value = loss(huge, labels)
        (gradient,) = torch.autograd.grad(value, huge)
        assert bool(torch.isfinite(value)), (dtype, scale)
        assert bool(torch.isfinite(gradient).all()), (dtype, scale)
    for dtype in (torch.float16, torch.bfloat16):
        half = logits.to(dtype)
        assert loss(half, labels).dtype == torch.float32
        torch.testing.assert_close(loss(half, labels), loss(half.float(), labels), rtol=0, atol=0)
    assert bool(torch.isfinite(loss(*batch(examples=1))))


@every_loss
def test_autocast_trains(loss: Loss) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 5)
    labels = torch.randint(0, 5, (6,))
    inputs = torch.randn(3, 6, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(layer(inputs), labels)
    value.backward()  # type: ignore[no-untyped-call]
    assert value.dtype == torch.float32
    assert layer.weight.grad is not None
    assert bool(torch.isfinite(layer.weight.grad).all())
    assert float(layer.weight.grad.abs().sum()) > 0


@every_loss
def test_gradients_of_certain_predictions_are_finite(loss: Loss) -> None:
    """All right, all wrong, and exactly undecided: roots and absolute values are 0 there."""
    for scale in (0.0, 1.0, 100.0, 1e30):
        logits = (torch.eye(4) * scale).expand(3, 4, 4).clone().requires_grad_()
        for labels in (torch.arange(4), torch.arange(4).roll(1)):
            value = loss(logits, labels)
            assert bool(value.isfinite())
            assert bool(torch.autograd.grad(value, logits)[0].isfinite().all()), (scale, labels)


@every_loss
def test_ignored_rows_have_no_gradient_even_if_they_are_nan(loss: Loss) -> None:
    logits, labels = batch()
    labels[1] = -100
    expected = loss(logits[:, [0, 2, 3]], labels[[0, 2, 3]])
    logits[:, 1, 0] = torch.nan
    logits.requires_grad_()
    value = loss(logits, labels)
    torch.testing.assert_close(value, expected)
    (gradient,) = torch.autograd.grad(value, logits)
    assert bool(gradient.isfinite().all())
    assert not bool(gradient[:, 1].any())


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated:DeprecationWarning")  # by torch itself
def test_compiles_into_one_graph() -> None:
    """All losses at once: most of the time is spent on starting the compiler. Without one, the graph is tested."""
    backend = "inductor" if shutil.which("g++") or shutil.which("clang++") else "aot_eager"
    logits, labels = batch(examples=8)
    logits.requires_grad_()

    def every(z: Tensor) -> Tensor:
        return torch.stack([loss(z, labels) for loss in LOSSES.values()])

    torch.compiler.reset()
    values = torch.compile(every, fullgraph=True, backend=backend)(logits)
    torch.testing.assert_close(values, every(logits))
    for name, ours, expected in zip(LOSSES, values, every(logits), strict=True):
        found, wanted = (torch.autograd.grad(one, logits, retain_graph=True)[0] for one in (ours, expected))
        torch.testing.assert_close(found, wanted, msg=name)


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (torch.zeros(2, 3, 4), torch.zeros(2, dtype=torch.int64), r"labels must have shape \(3,\).*got \(2,\)"),
        (torch.zeros(2, 3, 4), torch.zeros(3), "integer class indices, got torch.float32"),
        (torch.zeros(2, 3, 4), torch.tensor([0, 1, 4]), r"\[0, 4\).*1 of 3 do not.*labels\[2\] = 4"),
        (torch.zeros(2, 3, 4), torch.tensor([0, -1, 1]), r"labels\[1\] = -1"),
        (torch.zeros(4), torch.tensor([0]), r"\(T, B, C\)"),
        (torch.zeros(2, 0, 4), torch.zeros(0, dtype=torch.int64), "at least one example"),
        (torch.zeros(2, 3, 4), [0, 1, 2], "labels must be a torch tensor, got list"),
        (torch.tensor([[[0.0, float("nan")]], [[0.0, 1.0]]]), torch.tensor([0]), "finite.*1 of 2 rows"),
        (torch.tensor([[[0.0, 1.0]], [[0.0, float("inf")]]]), torch.tensor([0]), "finite.*1 of 2 rows"),
        (torch.zeros(2, 3, 4, dtype=torch.int64), torch.tensor([0, 1, 2]), "floating point"),
    ],
)
def test_invalid_input_is_named_by_every_loss(logits: Tensor, labels: Tensor, message: str) -> None:
    is_type = "got torch.float32" in message or "got list" in message or "floating point" in message
    for loss in LOSSES.values():
        with pytest.raises(TypeError if is_type else ValueError, match=message):
            loss(logits, labels)


def test_invalid_options_are_named() -> None:
    logits, labels = batch()
    for loss in LOSSES.values():
        with pytest.raises(ValueError, match=r"weight must have shape \(5,\)"):
            loss(logits, labels, weight=torch.ones(4))
        with pytest.raises(TypeError, match="weight must be a torch tensor, got list"):
            loss(logits, labels, weight=[1.0] * 5)
        with pytest.raises(ValueError, match="reduction='average' is unknown; choose one of none, mean, sum"):
            loss(logits, labels, reduction="average")
    invalid: list[tuple[Callable[[], object], str]] = [
        (lambda: ss.LabelSmoothingLoss(label_smoothing=1.5), r"label_smoothing must lie in \[0, 1\], got 1.5"),
        (lambda: ss.CILoss(beta=-1), r"beta must lie in \[0, inf\), got -1"),
        (lambda: ss.EntropyCILoss(gamma=float("nan")), r"gamma must lie in \[0, inf\), got nan"),
        (lambda: ss.FocalLoss(gamma=-0.5), r"gamma must lie in \[0, inf\), got -0.5"),
        (lambda: ss.VWCILoss(measure="none"), "measure='none' is unknown; choose one of bhattacharyya"),
        (lambda: ss.VWCILoss(reduction="average"), "reduction='average'"),
        (lambda: ss.vwci_loss(torch.zeros(3, 4), torch.zeros(3, dtype=torch.int64)), r"\(T, B, C\), got \(3, 4\)"),
        (lambda: ss.vwci_loss(torch.zeros(1, 3, 4), torch.zeros(3, dtype=torch.int64)), "at least 2 stochastic passes"),
        (
            lambda: ss.vwci_loss(torch.zeros(2, 3, 4), torch.tensor([0, 1, 2]), measure="tv"),
            "measure='tv' is unknown",
        ),
    ]
    for make, message in invalid:
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(TypeError, match="gamma must be a number, got '3'"):
        ss.FocalLoss(gamma="3")  # type: ignore[arg-type]


def test_vwci_loss_and_alpha_equals_the_separate_functions() -> None:
    logits, labels = batch()
    logits.requires_grad_()
    for differentiate in (False, True):
        loss, alpha = vwci_loss_and_alpha(logits, labels, measure="hellinger", differentiate_alpha=differentiate)
        assert not alpha.requires_grad
        torch.testing.assert_close(alpha, ss.normalized_variance(logits.detach(), "hellinger"), rtol=0, atol=0)
        expected = ss.vwci_loss(logits, labels, measure="hellinger", differentiate_alpha=differentiate)
        torch.testing.assert_close(loss, expected, rtol=0, atol=0)
