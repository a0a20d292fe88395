"""AdaFocal: focal loss with a γ per bin of confidence, which follows the calibration of held-out examples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import torch
from torch import Tensor

from singleshot.common.checks import check_range, check_size
from singleshot.common.processes import examples_of_all_processes, of_main_process
from singleshot.losses.focal import miss
from singleshot.losses.terms import ClassificationLoss, LossOptions, loss_terms

if TYPE_CHECKING:
    from typing_extensions import Unpack

FIRST, LEAST, LARGEST, SWITCH = 1.0, -2.0, 20.0, 0.2
"""γ of a new bin, its range, and the absolute value below which it changes its sign."""


class AdaptiveGamma:
    """The γ of every bin of confidence, for use as ``gamma=`` of `adafocal_loss`.

    After each epoch, call `update` with the network's logits on examples that it is not trained on. They make up bins
    of equal size by confidence. If the mean confidence of a bin is E above its accuracy, its γ is multiplied by
    exp(``gain`` · E): an overconfident bin is trained more gently. A γ that falls below 0.2 becomes −0.2, which stands
    for the inverse focal loss, and back. γ stays in [−2, 20], as in the paper.

    Args:
        bins: number of bins; one without held-out examples keeps its γ.
        gain: how fast γ follows the calibration, λ in the paper.

    >>> gamma = AdaptiveGamma(bins=2)
    >>> logits, labels = torch.tensor([[4.0, 0.0]] * 10), torch.tensor([0] * 7 + [1] * 3)
    >>> gamma.update(logits=logits, labels=labels)  # .98 confident, .7 accurate
    >>> gamma(torch.tensor([0.6, 0.99]))
    tensor([1.0000, 1.3258])
    """

    loss = "adafocal"

    def __init__(self, bins: int = 15, *, gain: float = 1.0) -> None:
        bins = check_size("bins", bins, least=1)
        self.gain = check_range("gain", gain, "(0, inf)")
        self.gammas = torch.full((bins,), FIRST, dtype=torch.float64)
        self.edges = torch.arange(1, bins, dtype=torch.float64) / bins
        """The edges between the bins."""

    def __call__(self, probs: Tensor) -> Tensor:
        """Return the γ of each probability of a label."""
        index = torch.bucketize(probs, self.edges.to(probs), right=True)
        return self.gammas.to(probs)[index]

    def __float__(self) -> float:
        """Return the mean γ."""
        return float(self.gammas.mean())

    def __repr__(self) -> str:
        shown = ", ".join(f"{gamma:.3g}" for gamma in self.gammas.tolist())
        return f"AdaptiveGamma({len(self.gammas)}, gain={self.gain:g}): {shown}"

    @torch.no_grad()
    def update(self, *, logits: Any, labels: Any) -> None:
        """Move every γ.

        In a group of processes every process calls this with its part of the examples, and all get the same γ.

        Args:
            logits: (N, C), or (N, 1) of a binary classifier, of a plain forward pass in evaluation mode over held-out
                examples.
            labels: (N,) class indices.
        """
        logits, labels = examples_of_all_processes(logits, labels)
        confidence, predicted = logits.double().softmax(1).max(1)
        bins, examples = len(self.gammas), len(confidence)
        edges = confidence.sort().values[torch.arange(1, bins) * examples // bins]
        index = torch.bucketize(confidence, edges, right=True)
        size = torch.bincount(index, minlength=bins)
        gap = torch.bincount(index, confidence - (predicted == labels).double(), minlength=bins) / size.clamp(min=1)
        gammas = torch.where(size > 0, _moved(self.gammas, self.gain * gap), self.gammas)
        self.gammas, self.edges = of_main_process(gammas), of_main_process(edges)

    def state_dict(self) -> dict[str, Any]:
        """Return plain values for a checkpoint."""
        return {"loss": self.loss, "gain": self.gain, "gammas": self.gammas.tolist(), "edges": self.edges.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        try:
            found = msgspec.convert(state, _State)
        except ValueError as error:
            raise ValueError(f"not the state of an AdaptiveGamma: {error}") from None
        fits = len(found.edges) + 1 == len(found.gammas) and all(0 <= edge <= 1 for edge in found.edges)
        if not (fits and 0 < found.gain < math.inf and all(LEAST <= gamma <= LARGEST for gamma in found.gammas)):
            raise ValueError(f"not the state of an AdaptiveGamma: its values are out of range: {state}")
        self.gain = found.gain
        self.gammas, self.edges = (torch.tensor(values, dtype=torch.float64) for values in (found.gammas, found.edges))


class _State(msgspec.Struct):
    loss: Literal["adafocal"]
    gain: float
    gammas: list[float]
    edges: list[float]


def _moved(gammas: Tensor, move: Tensor) -> Tensor:
    """γ · exp(move) for positive γ, γ · exp(−move) for negative ones; the sign changes below `SWITCH`."""
    sign = gammas.sign()
    moved = gammas * (sign * move).exp()
    return torch.where(moved.abs() < SWITCH, -sign * SWITCH, moved.clamp(LEAST, LARGEST))


def adafocal_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    gamma: Callable[[Tensor], Tensor],
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """−(1 − p(y))^γ log p(y) where γ ≥ 0 and −(1 + p(y))^|γ| log p(y) where γ < 0, with γ a function of p(y).

    ``gamma`` is an :class:`AdaptiveGamma`. The weights of the inverse focal loss, γ < 0, grow with p(y).

    Ghosh, Schaaf, Gormley: AdaFocal: Calibration-aware Adaptive Focal Loss. NeurIPS 2022.

    >>> adafocal_loss(torch.tensor([[2.0, 0.0]]), torch.tensor([0]), gamma=AdaptiveGamma())
    tensor(0.0151)
    """
    if not callable(gamma):
        raise TypeError(f"gamma must be a singleshot.AdaptiveGamma, got {gamma!r}; focal_loss takes a number")
    terms = loss_terms(logits, labels, weight, ignore_index, reduction)
    log_probs, probs = terms.label_log_probs, terms.label_log_probs.exp()
    power = gamma(probs.detach())
    factor = torch.where(power < 0, (1 + probs) ** -power.clamp(max=0), miss(log_probs) ** power.clamp(min=0))
    return terms.reduce(-terms.over_labels(factor * log_probs))


class AdaFocalLoss(ClassificationLoss):
    """Module form of :func:`adafocal_loss`; update its ``gamma``, by default a new `AdaptiveGamma`, every epoch.

    >>> loss = AdaFocalLoss()
    >>> loss(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
    tensor(0.0151)
    >>> loss.gamma.update(logits=torch.tensor([[4.0, 0.0]] * 10), labels=torch.tensor([0] * 7 + [1] * 3))  # held out
    """

    function = staticmethod(adafocal_loss)

    def __init__(self, *, gamma: AdaptiveGamma | None = None, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.gamma = AdaptiveGamma() if gamma is None else gamma
