"""The convex problem behind vector and matrix scaling, and its solver.

The logits, divided by a first temperature, give features u. The fit learns a correction D and a bias b, so that the
new logits are u + D u + b. For N examples the objective is the mean NLL plus a Gaussian prior,

    (1/N) Σ_i −log softmax(u_i + D u_i + b)[y_i]  +  (1/2N) (s Σ_c D_cc² + s Σ_c b_c² + o Σ_{c≠k} D_ck²),

with s the ``strength`` and o the strength ``off_diagonal``. It is strictly convex, so the minimum is unique and finite
for any labels. D = 0, b = 0 is temperature scaling, so the fit is never worse than that on its own examples.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from singleshot.common.checks import check_range
from singleshot.common.layout import fitting_set
from singleshot.common.splits import balanced_order
from singleshot.posthoc.scaling import warn_missing_classes
from singleshot.posthoc.temperature import NoFiniteTemperature, best_temperature

Inputs = Literal["logits", "log_probs"]
Array = NDArray[np.float64]

CHUNK = 2**17  # numbers processed at once, in float64
MAX_KEPT = 2**24  # up to this many features are kept between steps, 128 MB in float64; more are recomputed
GRADIENT_TOLERANCE = 1e-12  # of the norm; double precision cannot go much lower
MAX_FEATURE = 100.0  # without a best temperature, larger logits are scaled down to this size
MAX_SPREAD = 1e11  # in temperatures: float64 keeps five digits of the smaller logits
FOLDS = 5
STRENGTHS = (1e5, 1e4, 1e3, 1e2, 1e1, 1e0, 1e-1)  # from pure temperature scaling to almost no regularisation
MISSING = "their scale and bias are only extrapolated, and make them less likely"


def features(logits: Tensor, on: Inputs) -> Tensor:
    """Return centred logits or log-probabilities, neither of which depends on a constant added to all logits."""
    if on == "logits":
        return logits - logits.mean(-1, keepdim=True)
    return torch.log_softmax(logits, -1)


def diagonal_problem(logits: Any, labels: Any, on: Inputs, strength: float | None) -> Problem:
    """Return the problem of vector scaling, with this strength or the one that cross-validation chooses.

    The temperature is the best one or, if there is none, one that leaves logits of an ordinary size unchanged.
    """
    if strength is not None:
        check_range("strength", strength, "(0, inf)")
    logits, labels = fitting_set(logits, labels)
    warn_missing_classes(labels, logits.shape[1], MISSING, stacklevel=5)
    best = best_temperature(logits, labels)
    spread = float(logits.amax()) - float(logits.amin())
    temperature = max(1.0, best.scale / MAX_FEATURE) if isinstance(best, NoFiniteTemperature) else best
    if spread > MAX_SPREAD * temperature:
        raise ValueError(
            f"logits must lie within {MAX_SPREAD:g} temperatures of each other, got a spread of {spread:g} with a "
            f"temperature of {temperature:g}: float64 cannot center them. Remove masked classes, or mask with -1e4."
        )
    if isinstance(best, NoFiniteTemperature):
        warnings.warn(
            f"no finite temperature minimises the NLL: {best.reason}. Only regularisation keeps the fit finite; use "
            "more data, with both right and wrong predictions.",
            stacklevel=4,
        )
    problem = Problem(logits, labels, temperature, on, full=False, strength=strength or 1.0)
    return choose_strength(problem, "strength") if strength is None else problem


@dataclass(frozen=True)
class Problem:
    """Examples and prior. Parameters are one flat array: D, or its diagonal if not ``full``, followed by b."""

    logits: Tensor  # (N, C)
    labels: Tensor  # (N,)
    temperature: float
    on: Inputs
    full: bool
    strength: float
    off_diagonal: float = 0.0

    @cached_property
    def prior(self) -> Array:
        """The weight of each squared parameter."""
        classes = self.logits.shape[1]
        own = np.full(classes, self.strength)
        matrix = np.where(np.eye(classes, dtype=bool), self.strength, self.off_diagonal)
        return np.concatenate([matrix.ravel() if self.full else own, own])

    def unpack(self, parameters: Array) -> tuple[Tensor, Tensor]:
        """Return D, as a matrix or its diagonal, and b."""
        classes = self.logits.shape[1]
        flat = torch.from_numpy(parameters)
        correction, bias = flat[:-classes], flat[-classes:]
        return (correction.view(classes, -1) if self.full else correction), bias

    def _chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield features and labels, a cache-sized chunk of rows at a time."""
        rows = max(1, CHUNK // self.logits.shape[1])
        keep = self.logits.numel() <= MAX_KEPT
        parts = torch.split(self._all_features if keep else self.logits, rows)
        for part, label in zip(parts, torch.split(self.labels, rows), strict=True):
            yield part if keep else self._features(part), label

    @cached_property
    def _all_features(self) -> Tensor:
        return self._features(self.logits)

    def _features(self, part: Tensor) -> Tensor:
        return features(part.double(), self.on) / self.temperature

    def _transform(self, u: Tensor, correction: Tensor, bias: Tensor) -> Tensor:
        return (u @ correction.T if self.full else u * correction) + bias

    def _transpose(self, u: Tensor, errors: Tensor) -> Tensor:
        """Apply the transpose of ``_transform`` to errors (n, C): the gradient in the parameters."""
        correction = (errors.T @ u).reshape(-1) if self.full else (errors * u).sum(0)
        return torch.cat([correction, errors.sum(0)])

    def nll_and_gradient(self, parameters: Array) -> tuple[float, Array]:
        """Return the mean NLL without the prior, and its gradient."""
        correction, bias = self.unpack(parameters)
        nll, gradient = 0.0, torch.zeros(len(parameters), dtype=torch.float64)
        for u, label in self._chunks():
            log_probs = torch.log_softmax(u + self._transform(u, correction, bias), 1)
            column = label.unsqueeze(1)
            nll -= float(log_probs.gather(1, column).sum())
            errors = log_probs.exp_()
            errors.scatter_add_(1, column, torch.full_like(errors[:, :1], -1.0))
            gradient += self._transpose(u, errors)
        return nll / len(self.labels), gradient.numpy() / len(self.labels)

    def value_and_gradient(self, parameters: Array) -> tuple[float, Array]:
        """Return the objective and its gradient."""
        nll, gradient = self.nll_and_gradient(parameters)
        pull = self.prior * parameters / len(self.labels)
        return nll + float(pull @ parameters) / 2, gradient + pull

    def hessian_product(self, parameters: Array, direction: Array) -> Array:
        """Return the Hessian of the objective times a direction."""
        correction, bias = self.unpack(parameters)
        change, shift = self.unpack(direction)
        result = torch.zeros(len(parameters), dtype=torch.float64)
        for u, _ in self._chunks():
            probs = torch.softmax(u + self._transform(u, correction, bias), 1)
            moved = self._transform(u, change, shift)
            result += self._transpose(u, probs * (moved - (probs * moved).sum(1, keepdim=True)))
        product: Array = (result.numpy() + self.prior * direction) / len(self.labels)
        return product


def solve(problem: Problem, start: Array | None = None, *, exact: bool = True) -> Array:
    """Minimise the objective by L-BFGS, and if ``exact`` continue with Newton's method to the last digits."""
    from scipy.optimize import minimize

    # Comparing strengths that differ by a factor of 10 needs few digits.
    tolerance = {"gtol": 1e-5, "ftol": 1e-10} if exact else {"gtol": 1e-4, "ftol": 1e-7}
    found = minimize(
        problem.value_and_gradient,
        np.zeros(len(problem.prior)) if start is None else start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 2000, "maxfun": 4000, "maxcor": 20, **tolerance},
    )
    parameters = np.asarray(found.x, dtype=np.float64)
    return _newton(problem, parameters) if exact else parameters


def _newton(problem: Problem, parameters: Array) -> Array:
    """Take Newton steps, each solved by conjugate gradients, while they reduce the value or the gradient."""
    from scipy.sparse.linalg import LinearOperator, cg

    size = len(parameters)
    value, gradient = problem.value_and_gradient(parameters)
    for _ in range(50):
        norm = float(np.linalg.norm(gradient))
        if norm <= GRADIENT_TOLERANCE:
            break
        at = parameters
        hessian = LinearOperator(
            (size, size), matvec=lambda direction, at=at: problem.hessian_product(at, direction), dtype=np.float64
        )
        step, _ = cg(hessian, -gradient, rtol=1e-4, maxiter=200)
        for _ in range(10):
            new_value, new_gradient = problem.value_and_gradient(parameters + step)
            if new_value < value or np.linalg.norm(new_gradient) < norm:
                break
            step = step / 4
        else:
            break  # the limit of double precision
        parameters, value, gradient = parameters + step, new_value, new_gradient
    return parameters


def choose_strength(problem: Problem, field: Literal["strength", "off_diagonal"]) -> Problem:
    """Return the problem with the strength that has the least held-out NLL in five-fold cross-validation.

    The folds contain all classes in proportion and are the same every time. Strengths are tried from strong to weak,
    each from the previous solution, until the held-out NLL stops decreasing.
    """
    logits, labels = problem.logits, problem.labels
    folds = min(FOLDS, len(labels))
    best, least = replace(problem, **{field: STRENGTHS[0]}), float("inf")  # type: ignore[arg-type]
    if folds < 2:
        return best  # one example determines no more than a temperature
    fold = torch.empty(len(labels), dtype=torch.int64)
    fold[balanced_order(labels.cpu())] = torch.arange(len(labels)) % folds
    parts = [((fold != k).nonzero().squeeze(1), (fold == k).nonzero().squeeze(1)) for k in range(folds)]
    solutions: list[Array | None] = [None] * folds
    for strength in STRENGTHS:
        candidate, total = replace(problem, **{field: strength}), 0.0  # type: ignore[arg-type]
        for k, (inside, outside) in enumerate(parts):
            training = replace(candidate, logits=logits[inside], labels=labels[inside])
            solutions[k] = solution = solve(training, solutions[k], exact=False)
            held_out = replace(candidate, logits=logits[outside], labels=labels[outside])
            total += held_out.nll_and_gradient(solution)[0] * len(outside)
        if not total < least:
            break
        best, least = candidate, total
    return best
