"""The strength of a loss, tuned during training on held-out examples until the network needs no temperature."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from singleshot.common.checks import check_choice, check_range
from singleshot.common.processes import examples_of_all_processes, of_main_process
from singleshot.posthoc.temperature import NoFiniteTemperature, best_temperature

MAX_MOVE = 1.0
"""Largest move of the log-strength in one update, a factor of e. An extreme temperature asks for no more."""
CHANCE = 1.96
"""Absolute score above which a temperature of 1 is rejected, at the 5 % level."""

_ODDS = 0.05 / 0.95
_RANGES = {  # first, least and largest odds (label_smoothing) or value (the others)
    "vwci": (1.0, 1 / 30, 30.0),
    "label_smoothing": (_ODDS, 1e-3, 9.0),
    "ci": (_ODDS, 1e-3, 9.0),
    "focal": (1.0, 1e-2, 20.0),
}


class SelfTunedStrength:
    """The strength of a loss, for use in place of a number that would have to be chosen.

    Pass it to the loss by the parameter that the loss has: ``strength=`` of `vwci_loss`, ``label_smoothing=`` of
    `label_smoothing_loss`, ``beta=`` of `ci_loss`, ``gamma=`` of `focal_loss`. A few times per epoch, call `update`
    with the network's logits on examples that it is not trained on. The temperature τ that they need is the error: the
    logarithm of the strength (of the odds, for label smoothing) moves by ``gain`` · log τ. An overconfident network,
    τ > 1, gets more of the loss's pull towards uniform, an underconfident one less, and at τ = 1 nothing moves.

    Args:
        loss: ``vwci``, ``label_smoothing``, ``ci`` or ``focal``.
        gain: how fast the strength follows the temperature.

    >>> strength = SelfTunedStrength("label_smoothing")
    >>> round(float(strength), 3)
    0.05
    >>> logits, labels = torch.tensor([[4.0, 0.0]] * 10), torch.tensor([0] * 7 + [1] * 3)
    >>> round(strength.update(logits=logits, labels=labels), 2)  # the temperature: .98 confident, .7 accurate
    4.72
    >>> round(float(strength), 3)
    0.123
    """

    def __init__(self, loss: str = "vwci", *, gain: float = 1.0) -> None:
        check_choice("loss", loss, tuple(_RANGES))
        check_range("gain", gain, "(0, inf)")
        self.loss = loss
        self.gain = float(gain)
        self.temperature: float | None = None
        """The temperature of the last update, None before the first."""
        self.score: float | None = None
        """The score statistic of τ = 1 in the last update, about normal if the network is calibrated. Negative if it
        is overconfident."""
        self._log = math.log(_RANGES[loss][0])

    def __float__(self) -> float:
        value = math.exp(self._log)
        return value / (1 + value) if self.loss == "label_smoothing" else value

    def __format__(self, specification: str) -> str:
        return format(float(self), specification) if specification else repr(self)

    def __repr__(self) -> str:
        temperature = "" if self.temperature is None else f", temperature={self.temperature:.4g}"
        return f"SelfTunedStrength({self.loss!r}, gain={self.gain:g}): {float(self):.4g}{temperature}"

    @property
    def is_calibrated(self) -> bool:
        """Whether the examples of the last update are compatible with τ = 1, at the 5 % level."""
        return self.score is not None and abs(self.score) <= CHANCE

    @torch.no_grad()
    def update(self, *, logits: Any, labels: Any) -> float:
        """Move the strength and return the temperature.

        In a group of processes every process calls this with its part of the examples, and all get the same strength.
        Invalid examples raise an error and change nothing.

        Args:
            logits: (N, C), or (N, 1) of a binary classifier, of a plain forward pass in evaluation mode over held-out
                examples.
            labels: (N,) class indices.
        """
        logits, labels = examples_of_all_processes(logits, labels)
        if len(labels.unique()) < 2:
            raise ValueError(
                f"all held-out examples have the same class, {int(labels[0])}; hold out examples of at least two "
                "classes"
            )
        best = best_temperature(logits, labels)
        temperature = best.bound if isinstance(best, NoFiniteTemperature) else best
        score = _score(logits, labels)
        # A score is signal plus noise of variance 1, so score² − 1 estimates the squared signal, and this its share.
        trust = 1 - (1 / score) ** 2 if abs(score) > 1 else 0.0
        move = self.gain * trust * min(MAX_MOVE, max(-MAX_MOVE, math.log(temperature)))
        _, least, largest = _RANGES[self.loss]
        log = min(math.log(largest), max(math.log(least), self._log + move))
        self._log = float(of_main_process(torch.tensor(log, dtype=torch.float64)))
        self.temperature, self.score = temperature, score
        return temperature

    def state_dict(self) -> dict[str, Any]:
        """Return plain values for a checkpoint."""
        names = ("loss", "gain", "temperature", "score")
        return {"log_strength": self._log, **{name: getattr(self, name) for name in names}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        if not isinstance(state, dict) or "loss" not in state:
            raise ValueError(f"not the state of a strength: {state!r}")
        if state["loss"] != self.loss:
            raise ValueError(f"this is the strength of {self.loss}, the state is that of {state['loss']}")
        numbers = [state.get(name) for name in ("log_strength", "gain", "temperature", "score")]
        if not all(isinstance(number, float) or (number is None and place > 1) for place, number in enumerate(numbers)):
            raise ValueError(f"not the state of a strength: {state}")
        _, least, largest = _RANGES[self.loss]
        if not (math.log(least) <= state["log_strength"] <= math.log(largest) and 0 < state["gain"] < math.inf):
            raise ValueError(f"log_strength or gain is out of range: {state}")
        self._log, self.gain, self.temperature, self.score = numbers  # type: ignore[assignment]


def _score(logits: Tensor, labels: Tensor) -> float:
    """Rao's score test of τ = 1: the summed slope of the NLL in log τ, over its standard deviation under τ = 1.

    The slope of one example is z_y − Σ_c p_c z_c, and its variance that of z under p. As the variance is not estimated
    from the labels, the test has its nominal level with a handful of examples as well.
    """
    margins = logits.double()
    margins = margins - margins.gather(1, labels.unsqueeze(1))  # logits that are all equal have a slope of exactly 0
    probs = margins.softmax(1)
    expected = (probs * margins).sum(1, keepdim=True)
    slope, variance = -float(expected.sum()), float((probs * (margins - expected).square()).sum())
    if variance > 0:
        return slope / math.sqrt(variance)
    return math.copysign(math.inf, slope) if slope else 0.0
