"""Isotonic regression and histogram binning: probabilities are replaced by frequencies observed in the fitting set."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, get_args

import msgspec
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from singleshot.common.checks import check_choice, check_size
from singleshot.common.layout import fitting_set
from singleshot.posthoc.scaling import Scaling, check_classes, to_output_dtype, warn_missing_classes

Kind = Literal["top_label", "one_vs_rest"]
Rows = list[list[float]]
MAX_PADDED = 2**27  # numbers in a buffer, 1 GB; a hostile file could request any amount
Count = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
MISSING = "their frequency is 0 at every score, so that their calibrated probability is close to 0"
MISSING_TOP = "predictions of them count as wrong, so that their calibrated confidence is too low"


class FrequencyScaling(Scaling):
    """Base class of scalings that consist of piecewise functions from a probability to a frequency.

    A function is a row of increasing points and a row of values. Rows may differ in length: in the buffers, points are
    padded with infinity and values with 0.
    """

    points_name: ClassVar[str]
    extra_values: ClassVar[int]  # how many more values than points a row has
    values: Tensor
    examples: Tensor  # size of the fitting set, an int64 scalar
    classes: int

    def _register_rows(self, points: Sequence[Any], values: Sequence[Any], examples: int, count: int) -> None:
        name = self.points_name
        if not len(points) == len(values) == count:
            found = f"{len(points)} and {len(values)}"
            raise ValueError(f"{name} and values must have {count} rows, got {found}")
        rows, value_rows = ([torch.as_tensor(row, dtype=torch.float64).detach() for row in x] for x in (points, values))
        for index, (row, value) in enumerate(zip(rows, value_rows, strict=True)):
            if len(value) != len(row) + self.extra_values or not len(value):
                expected = "one number more than" if self.extra_values else "as many numbers as"
                raise ValueError(f"values[{index}] must have {expected} {name}[{index}], and at least one")
            if not row.isfinite().all() or not (row.diff() > 0).all():
                raise ValueError(f"{name}[{index}] must be finite and strictly increasing")
            if not ((value >= 0) & (value <= 1)).all():
                raise ValueError(f"values[{index}] must lie in [0, 1]")
        width = max(map(len, rows)) + 1
        if len(rows) * width > MAX_PADDED:
            raise ValueError(f"{len(rows)} rows of up to {width - 1} {name} are too many")
        self.register_buffer(name, torch.stack([pad(row, (0, width - len(row)), value=torch.inf) for row in rows]))
        self.register_buffer("values", torch.stack([pad(value, (0, width - len(value))) for value in value_rows]))
        self.register_buffer("examples", torch.tensor(check_size("examples", examples, 1)))

    @abstractmethod
    def _frequencies(self, logits: Tensor, probs: Tensor) -> Tensor:
        """Return the frequencies (..., C) for float64 logits and probabilities."""

    def forward(self, logits: Tensor) -> Tensor:
        """Return log-probabilities of logits (..., C), none of them −∞.

        A frequency of 0 or 1 was observed in N examples only. So one pseudo-example, with weight 1/(N+1), is divided
        among the classes: half in proportion to the uncalibrated probabilities, half evenly. Classes with equal
        frequencies keep their order, and where all frequencies are 0 the uncalibrated probabilities decide.
        """
        check_classes(logits, self.classes)
        wide = logits.double().contiguous()  # with one memory layout, equal rows give equal bits
        probs = torch.softmax(wide, -1)
        pseudo_example = (probs + 1 / self.classes) / (2 * (self.examples.to(probs.device) + 1))
        mixed = self._frequencies(wide, probs) + pseudo_example
        return to_output_dtype(torch.log(mixed / mixed.sum(-1, keepdim=True)), logits)

    @classmethod
    @abstractmethod
    def fit_confidence(cls, confidence: Tensor, correct: Tensor) -> FrequencyScaling:
        """Fit to the confidences (N,) of predicted classes, and whether these are correct (N,).

        The result has a single class: it maps confidences with `of_confidence`, not logits.
        """

    def of_confidence(self, confidence: Tensor) -> Tensor:
        """Return calibrated confidences (N,) in float64, for a scaling from `fit_confidence`.

        One pseudo-example, which is right with the mean of its confidence and 1/2, keeps them away from 0 and 1, and
        keeps the order of confidences with equal frequencies.
        """
        if self.classes != 1:
            raise ValueError(f"this scaling is for the logits of {self.classes} classes, not for confidences")
        column = confidence.double().unsqueeze(1)
        weight = 1 / (int(self.examples) + 1)
        return ((self._frequencies(column, column) + weight * (column + 0.5) / 2) / (1 + weight)).squeeze(1)

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments of the constructor, without the padding of the rows."""
        arguments, points = super().to_dict(), self.points_name
        lengths = getattr(self, points).isfinite().sum(1).tolist()
        for name, extra in ((points, 0), ("values", self.extra_values)):
            arguments[name] = [row[: n + extra] for row, n in zip(arguments[name], lengths, strict=True)]
        return arguments

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Accept rows of another length: it depends on the fitting set."""
        for name in (self.points_name, "values"):
            own, saved = getattr(self, name), state_dict.get(prefix + name)
            if saved is not None and saved.ndim == 2 and len(saved) == len(own):
                setattr(self, name, own.new_empty(saved.shape))
        super()._load_from_state_dict(state_dict, prefix, *args)


class IsotonicScaling(FrequencyScaling):
    """Map the probability of each class by an increasing function of its own, then normalize.

    The function of a class interpolates linearly between points (score, value) and is constant beyond them. The result
    is log-probabilities. The predicted class may change. Half precision gives float32.

    Args:
        scores: for each class, increasing probabilities.
        values: for each class, the frequency of the class at these scores.
        examples: size of the fitting set.

    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 2.0]] * 10), torch.tensor([0, 1] * 5 + [0] * 10)
    >>> scaling = IsotonicScaling.fit(logits, labels)
    >>> scaling(logits[:2]).exp()  # class 0 was right in all cases, class 1 in half
    tensor([[0.9859, 0.0141],
            [0.4913, 0.5087]])
    """

    method = "isotonic"
    fields: ClassVar[dict[str, Any]] = {"scores": Rows, "values": Rows, "examples": Count}
    points_name = "scores"
    extra_values = 0
    scores: Tensor

    def __init__(self, scores: Sequence[Any], values: Sequence[Any], examples: int) -> None:
        super().__init__()
        self._register_rows(scores, values, examples, max(len(scores), 1))
        if bool((self.values.diff() < 0)[self.scores[:, 1:].isfinite()].any()):
            raise ValueError("values must not decrease within a row")
        self.classes = len(scores)

    @classmethod
    @torch.no_grad()
    def fit(cls, logits: Tensor, labels: Tensor) -> IsotonicScaling:
        """Fit by least squares, one class against the rest, to logits (N, C) and labels (N,)."""
        from sklearn.isotonic import IsotonicRegression

        logits, labels = fitting_set(logits, labels)
        warn_missing_classes(labels, logits.shape[1], MISSING)
        probs = torch.softmax(logits.double().contiguous(), -1).cpu().numpy()
        curves = [
            IsotonicRegression(y_min=0, y_max=1).fit(probs[:, index], (labels == index).double().cpu().numpy())
            for index in range(logits.shape[1])
        ]
        scores, values = [curve.X_thresholds_ for curve in curves], [curve.y_thresholds_ for curve in curves]
        return cls(scores, values, len(labels))

    @classmethod
    def fit_confidence(cls, confidence: Tensor, correct: Tensor) -> IsotonicScaling:
        """Fit accuracy as an increasing function of the confidences (N,) of predicted classes."""
        from sklearn.isotonic import IsotonicRegression

        curve = IsotonicRegression(y_min=0, y_max=1).fit(confidence.double().numpy(), correct.double().numpy())
        return cls([curve.X_thresholds_], [curve.y_thresholds_], len(correct))

    def _frequencies(self, logits: Tensor, probs: Tensor) -> Tensor:
        scores, values = self.scores.to(probs), self.values.to(probs)
        at = probs.reshape(-1, self.classes).T.contiguous().clamp(min=scores[:, :1])
        right = _count_below(scores, at).clamp(min=1)  # above the last point: infinity, with a weight of 0
        left = right - 1
        start, end = scores.gather(1, left), scores.gather(1, right)
        found = torch.lerp(values.gather(1, left), values.gather(1, right), (at - start) / (end - start))
        return found.T.contiguous().view(probs.shape)


class HistogramBinning(FrequencyScaling):
    """Sort confidences into bins of equally many examples, and replace each by the frequency observed in its bin.

    ``top_label``: the predicted class gets the accuracy of its bin, and the other classes share the rest in proportion.
    ``one_vs_rest``: each class gets the frequency of its own bin, and the frequencies are then normalized.
    The result is log-probabilities. The predicted class may change. Half precision gives float32.

    Args:
        edges: the increasing inner edges of the bins: one row, or one for each class.
        values: the frequency in each bin, one more than edges.
        examples: size of the fitting set.
        classes: number of classes.
        kind: ``top_label`` or ``one_vs_rest``.

    >>> logits, labels = torch.tensor([[2.0, 0.0], [1.0, 0.0]] * 20), torch.tensor([0, 0, 0, 1] * 10)
    >>> scaling = HistogramBinning.fit(logits, labels, bins=2)
    >>> scaling(logits[:2]).exp()  # class 0 was right in all and in half of the cases
    tensor([[0.9926, 0.0074],
            [0.5028, 0.4972]])
    """

    method = "histogram"
    fields: ClassVar[dict[str, Any]] = {
        "edges": Rows, "values": Rows, "examples": Count, "classes": Count, "kind": Kind
    }  # fmt: skip
    points_name = "edges"
    extra_values = 1
    edges: Tensor

    def __init__(
        self, edges: Sequence[Any], values: Sequence[Any], examples: int, classes: int, kind: Kind = "top_label"
    ) -> None:
        super().__init__()
        check_choice("kind", kind, get_args(Kind))
        self.kind, self.classes = kind, check_size("classes", classes, 1)
        self._register_rows(edges, values, examples, 1 if kind == "top_label" else classes)

    @classmethod
    @torch.no_grad()
    def fit(cls, logits: Tensor, labels: Tensor, *, bins: int = 15, kind: Kind = "top_label") -> HistogramBinning:
        """Fit to logits (N, C) and labels (N,); tied confidences can make the number of bins smaller."""
        check_choice("kind", kind, get_args(Kind))
        bins = check_size("bins", bins, 1)
        logits, labels = fitting_set(logits, labels)
        classes = logits.shape[1]
        warn_missing_classes(labels, classes, MISSING_TOP if kind == "top_label" else MISSING)
        probs = torch.softmax(logits.double().contiguous(), -1)
        if kind == "top_label":
            confidence, predicted = probs.max(1)
            filled = [_fill_bins(confidence, predicted == labels, bins)]
        else:
            filled = [_fill_bins(probs[:, index], labels == index, bins) for index in range(classes)]
        edges, values = zip(*filled, strict=True)
        return cls(edges, values, len(labels), classes, kind)

    @classmethod
    def fit_confidence(cls, confidence: Tensor, correct: Tensor, *, bins: int = 15) -> HistogramBinning:
        """Fit the accuracy in bins of equally many confidences (N,) of predicted classes."""
        edges, values = _fill_bins(confidence.double(), correct, check_size("bins", bins, 1))
        return cls([edges], [values], len(correct), 1)

    def _frequencies(self, logits: Tensor, probs: Tensor) -> Tensor:
        if self.kind == "one_vs_rest":
            return self._look_up(probs)
        confidence, predicted = probs.max(-1, keepdim=True)
        top = self._look_up(confidence)
        others = logits.scatter(-1, predicted, -torch.inf)
        shares = torch.softmax(others, -1) if self.classes > 1 else torch.zeros_like(others)
        return ((1 - top) * shares).scatter(-1, predicted, top)

    def _look_up(self, confidence: Tensor) -> Tensor:
        columns = confidence.reshape(-1, len(self.edges)).T.contiguous()
        found = self.values.to(columns).gather(1, _count_below(self.edges.to(columns), columns))
        return found.T.contiguous().view(confidence.shape)


def _count_below(points: Tensor, at: Tensor) -> Tensor:
    """Return ``torch.searchsorted(points, at)`` for points (rows, K) and values (rows, N)."""
    if not torch.compiler.is_compiling():
        return torch.searchsorted(points, at)
    count = torch.zeros_like(at, dtype=torch.int64)  # ONNX has no such operator: an unrolled binary search
    size = points.shape[1]
    for bit in reversed(range(size.bit_length())):
        candidate = (count + 2**bit).clamp(max=size)
        count = torch.where(points.gather(1, candidate - 1) < at, candidate, count)
    return count


def _fill_bins(confidence: Tensor, outcome: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """Return the edges, halfway between neighbouring confidences, and the frequency of the outcome in each bin."""
    order = np.argsort(confidence.cpu().numpy(), kind="stable")
    ordered, outcomes = confidence.cpu().numpy()[order], outcome.cpu().numpy()[order].astype(np.float64)
    ends = np.arange(1, bins) * len(ordered) // bins  # how many examples are below each inner edge
    ends = ends[(ends > 0) & (ends < len(ordered))]
    ends = np.unique(np.searchsorted(ordered, ordered[ends], side="left"))  # tied examples stay together
    starts = np.concatenate([[0], ends[ends > 0]])
    edges = (ordered[starts[1:] - 1] + ordered[starts[1:]]) / 2
    counts = np.diff(np.append(starts, len(ordered)))
    return torch.from_numpy(edges), torch.from_numpy(np.add.reduceat(outcomes, starts) / counts)
