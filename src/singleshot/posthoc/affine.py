"""The convex problem behind vector and matrix scaling, and its solution.

A first temperature τ makes features u of the logits; what is learned is a correction D and a bias b that turn u into
u + D u + b. With N examples the objective is the mean NLL plus a Gaussian prior that counts as in a posterior mode,

    (1/N) Σ_i −log softmax(u_i + D u_i + b)[y_i]  +  (1/2N) (s Σ_c D_cc² + s Σ_c b_c² + o Σ_{c≠k} D_ck²),

s the ``strength``, o that of the ``off_diagonal``. It is strictly convex, so there is one answer, and a finite one
whatever the labels; at D = 0, b = 0 it is temperature scaling, so the fit is never worse than that on its own examples.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from singleshot.common.checks import check_non_negative
from singleshot.common.splits import balanced_order
from singleshot.posthoc.temperature import NoFiniteTemperature, best_temperature

Inputs = Literal["logits", "log_probs"]
Array = NDArray[np.float64]

CHUNK = 2**17  # numbers worked on at once, in float64
KEPT = 2**24  # features up to this many are kept between steps, 128 MB in float64; more are made anew each time
GRADIENT_TOLERANCE = 1e-12  # of the norm; double precision ends a little below
LARGEST_FEATURE = 100.0  # where no temperature is best, logits far beyond 100 are brought down to it
LARGEST_SPREAD = 1e11  # in temperatures: float64 keeps five digits of what is beside it


def features(logits: Tensor, on: Inputs) -> Tensor:
    """Centred logits, or log-probabilities: either way, what the softmax does not see is gone."""
    if on == "logits":
        return logits - logits.mean(-1, keepdim=True)
    return torch.log_softmax(logits, -1)


def top_at_zero(scores: Tensor, logits: Tensor) -> Tensor:
    """Float64 scores with the largest at 0, where float32 has most digits; float32 unless the logits are float64."""
    scores = scores - scores.amax(-1, keepdim=True)
    if logits.dtype == torch.float64:
        return scores
    return scores.clamp(min=torch.finfo(torch.float32).min).float()


def first_temperature(logits: Tensor, labels: Tensor) -> float:
    """The best temperature; where there is none, that which leaves logits of an ordinary size as they are."""
    best = best_temperature(logits, labels)
    spread = float(logits.amax()) - float(logits.amin())
    temperature = best if not isinstance(best, NoFiniteTemperature) else max(1.0, best.scale / LARGEST_FEATURE)
    if spread > LARGEST_SPREAD * temperature:
        raise ValueError(
            f"logits must lie within {LARGEST_SPREAD:g} temperatures of each other, got {spread:g} with a temperature "
            f"of {temperature:g}: their mean would drown the rest. Leave masked classes out, or mask them with -1e4."
        )
    if not isinstance(best, NoFiniteTemperature):
        return temperature
    warnings.warn(
        f"no finite temperature is best here: {best.why}. The fit begins from the logits as they are, and only its "
        "regularisation keeps it finite; more data, with both right and wrong predictions, would give a real fit.",
        stacklevel=4,
    )
    return temperature


@dataclass(frozen=True)
class Problem:
    """Examples and prior. Parameters are one flat array: D, its diagonal alone if not ``full``, and then b."""

    logits: Tensor  # (N, C)
    labels: Tensor  # (N,)
    temperature: float
    on: Inputs
    full: bool
    strength: float
    off_diagonal: float = 0.0

    @property
    def classes(self) -> int:
        """C."""
        return self.logits.shape[1]

    def prior(self) -> Array:
        """The weight of each squared parameter."""
        c = self.classes
        own = np.full(c, self.strength)
        if not self.full:
            return np.concatenate([own, own])
        correction = np.full((c, c), self.off_diagonal)
        np.fill_diagonal(correction, self.strength)
        return np.concatenate([correction.ravel(), own])

    def unpacked(self, parameters: Array) -> tuple[Tensor, Tensor]:
        """D, as a matrix or its diagonal, and b."""
        flat = torch.from_numpy(parameters)
        correction, bias = flat[: -self.classes], flat[-self.classes :]
        return (correction.view(self.classes, -1) if self.full else correction), bias

    def _chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Features and labels, a cache-sized chunk of rows at a time."""
        rows = max(1, CHUNK // self.classes)
        small = self.logits.numel() <= KEPT
        parts = torch.split(self._kept_features if small else self.logits, rows)
        for part, label in zip(parts, torch.split(self.labels, rows), strict=True):
            yield part if small else self._features(part), label

    @cached_property
    def _kept_features(self) -> Tensor:
        return self._features(self.logits)

    def _features(self, part: Tensor) -> Tensor:
        return features(part.double(), self.on) / self.temperature

    def _moved(self, u: Tensor, correction: Tensor, bias: Tensor) -> Tensor:
        return (u @ correction.T if self.full else u * correction) + bias

    def _collected(self, u: Tensor, errors: Tensor) -> Tensor:
        """What errors (n, C) in the output mean for the parameters."""
        correction = (errors.T @ u).reshape(-1) if self.full else (errors * u).sum(0)
        return torch.cat([correction, errors.sum(0)])

    def nll_and_gradient(self, parameters: Array) -> tuple[float, Array]:
        """Mean NLL without the prior, and its gradient."""
        correction, bias = self.unpacked(parameters)
        nll, gradient = 0.0, torch.zeros(len(parameters), dtype=torch.float64)
        for u, label in self._chunks():
            log_probs = torch.log_softmax(u + self._moved(u, correction, bias), 1)
            column = label.unsqueeze(1)
            nll -= float(log_probs.gather(1, column).sum())
            errors = log_probs.exp_()
            errors.scatter_add_(1, column, torch.full_like(errors[:, :1], -1.0))
            gradient += self._collected(u, errors)
        return nll / len(self.labels), gradient.numpy() / len(self.labels)

    def value_and_gradient(self, parameters: Array) -> tuple[float, Array]:
        """The whole objective."""
        nll, gradient = self.nll_and_gradient(parameters)
        pull = self.prior() * parameters / len(self.labels)
        return nll + float(pull @ parameters) / 2, gradient + pull

    def curvature_along(self, parameters: Array, direction: Array) -> Array:
        """The objective's Hessian times a direction."""
        correction, bias = self.unpacked(parameters)
        change, shift = self.unpacked(direction)
        result = torch.zeros(len(parameters), dtype=torch.float64)
        for u, _ in self._chunks():
            probs = torch.softmax(u + self._moved(u, correction, bias), 1)
            moved = self._moved(u, change, shift)
            result += self._collected(u, probs * (moved - (probs * moved).sum(1, keepdim=True)))
        curvature: Array = (result.numpy() + self.prior() * direction) / len(self.labels)
        return curvature


def solve(problem: Problem, start: Array, *, exactly: bool = True) -> Array:
    """The parameters of least value: L-BFGS to come near and, if ``exactly``, Newton's method to the last digits."""
    from scipy.optimize import minimize

    # Strengths that differ by a factor of 10 can be told apart long before the last digit.
    tolerance = {"gtol": 1e-5, "ftol": 1e-10} if exactly else {"gtol": 1e-4, "ftol": 1e-7}
    found = minimize(
        problem.value_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 2000, "maxfun": 4000, "maxcor": 20, **tolerance},
    )
    parameters = np.asarray(found.x, dtype=np.float64)
    return _polished(problem, parameters) if exactly else parameters


def _polished(problem: Problem, parameters: Array) -> Array:
    """Newton steps, each solved by conjugate gradients, for as long as they bring the gradient down."""
    from scipy.sparse.linalg import LinearOperator, cg

    size = len(parameters)
    value, gradient = problem.value_and_gradient(parameters)
    for _ in range(50):
        norm = float(np.linalg.norm(gradient))
        if norm <= GRADIENT_TOLERANCE:
            break
        here = parameters
        hessian = LinearOperator(
            (size, size), matvec=lambda direction, here=here: problem.curvature_along(here, direction), dtype=np.float64
        )
        step, _ = cg(hessian, -gradient, rtol=1e-4, maxiter=200)
        for _ in range(10):
            new_value, new_gradient = problem.value_and_gradient(parameters + step)
            if new_value < value or np.linalg.norm(new_gradient) < norm:
                break
            step = step / 4
        else:
            break  # as low as double precision goes
        parameters, value, gradient = parameters + step, new_value, new_gradient
    return parameters


FOLDS = 5
STRENGTHS = (1e5, 1e4, 1e3, 1e2, 1e1, 1e0, 1e-1)  # from one that leaves the temperature alone to hardly any
OnExamples = Callable[[Tensor, Tensor], Problem]
"""Makes the problem for these logits and labels."""


def chosen_strength(
    logits: Tensor, labels: Tensor, with_strength: Callable[[float], OnExamples], strengths: Sequence[float] = STRENGTHS
) -> float:
    """The strength whose fits to four fifths of the examples have the least NLL on the other fifth.

    The folds hold all classes in proportion and are the same every time. Strengths are tried from strong to weak, each
    from the answer of the one before, until the held-out NLL stops falling.
    """
    folds = min(FOLDS, len(labels))
    if folds < 2:
        return strengths[0]  # nothing to learn from one example but its temperature
    fold = torch.empty(len(labels), dtype=torch.int64)
    fold[balanced_order(labels.cpu())] = torch.arange(len(labels)) % folds
    parts = [((fold != k).nonzero().squeeze(1), (fold == k).nonzero().squeeze(1)) for k in range(folds)]
    answers: list[Array | None] = [None] * folds
    best, least = strengths[0], float("inf")
    for strength in strengths:
        total = 0.0
        for k, (inside, outside) in enumerate(parts):
            problem = with_strength(strength)(logits[inside], labels[inside])
            start = answers[k]
            answers[k] = answer = solve(
                problem, np.zeros(len(problem.prior())) if start is None else start, exactly=False
            )
            held_out = with_strength(strength)(logits[outside], labels[outside])
            total += held_out.nll_and_gradient(answer)[0] * len(outside)
        if not total < least:
            break
        best, least = strength, total
    return best


def check_strength(name: str, value: float | None) -> None:
    """Refuse what would not regularise: without it, some labels have no finite best fit."""
    if value is not None:
        check_non_negative(name, value)
        if not value:
            raise ValueError(f"{name} must be above 0, got {value}; None chooses it by cross-validation")
