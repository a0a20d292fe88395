"""Reference implementations of every formula in plain float64 numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


def softmax(logits: Array) -> Array:
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    result: Array = shifted / shifted.sum(-1, keepdims=True)
    return result


def entropy(probs: Array) -> Array:
    result: Array = -(probs * np.log(probs)).sum(-1)
    return result


def coefficient(p: Array, q: Array) -> Array:
    result: Array = np.sqrt(p * q).sum(-1)
    return result


def covariance(logits: Array) -> Array:
    probs = softmax(logits)
    passes, examples, classes = probs.shape
    result = np.zeros((examples, classes, classes))
    for i in range(examples):
        m = probs[:, i].mean(0)
        result[i] = sum(np.outer(probs[t, i], probs[t, i]) for t in range(passes)) / passes - np.outer(m, m)
    return result


def alpha(logits: Array, kind: str) -> Array:
    probs = softmax(logits)
    passes, classes = probs.shape[0], probs.shape[-1]
    m = probs.mean(0)
    per_pass: list[Array]
    if kind in ("bhattacharyya", "unbiased"):
        per_pass = [1 - coefficient(p, m) for p in probs]
    elif kind in ("total_variation", "confident_disagreement"):
        per_pass = [np.abs(p - m).sum(-1) / 2 for p in probs]
    elif kind == "mutual_information":
        per_pass = [(p * np.log(p / m)).sum(-1) / np.log(passes) for p in probs]
    elif kind in ("hellinger", "epistemic"):
        per_pass = [np.sqrt(np.maximum(1 - coefficient(p, m), 0)) for p in probs]
    else:
        raise AssertionError(kind)
    mean: Array = np.mean(per_pass, axis=0)
    if kind == "unbiased":
        mean = mean * passes / (passes - 1)
    if kind == "confident_disagreement":
        mean = mean * (1 - entropy(m) / np.log(classes))
    if kind == "epistemic":
        mean = mean * np.sqrt(np.maximum(entropy(m) - entropy(probs).mean(0), 0) / entropy(m))
    return mean


def ground_truth(logits: Array, labels: Labels) -> Array:
    log_probs = np.log(softmax(logits))
    return np.array([-np.mean([p[i, y] for p in log_probs]) for i, y in enumerate(labels)])


def uniform(logits: Array) -> Array:
    result: Array = -np.log(softmax(logits)).mean(-1).mean(0)
    return result


def soft_target_cross_entropy(logits: Array, target: Array) -> Array:
    result: Array = -(target * np.log(softmax(logits))).sum(-1).mean(0)
    return result


def calibration(probs: Array, labels: Labels, bins: int) -> dict[str, Any]:
    """All metrics by a loop over examples, with bins (lo, hi] of the top-1 confidence."""
    examples, classes = probs.shape
    confidence, predicted = probs.max(1), probs.argmax(1)
    members: list[list[int]] = [[] for _ in range(bins)]
    for i, value in enumerate(confidence):
        members[which_bin(value, bins)].append(i)
    gaps, shares = [], []
    accuracies = np.full(bins, np.nan)
    confidences = np.full(bins, np.nan)
    for b, rows in enumerate(members):
        if rows:
            accuracies[b] = np.mean(predicted[rows] == labels[rows])
            confidences[b] = np.mean(confidence[rows])
            gaps.append(confidences[b] - accuracies[b])
            shares.append(len(rows) / examples)
    gap, share = np.array(gaps), np.array(shares)
    onehot = np.eye(classes)[labels]
    with np.errstate(divide="ignore"):
        nll = -np.log(probs[np.arange(examples), labels]).mean()
    return {
        "accuracy": np.mean(predicted == labels),
        "mean_confidence": confidence.mean(),
        "ece": (share * np.abs(gap)).sum(),
        "mce": np.abs(gap).max(),
        "rmsce": np.sqrt((share * gap**2).sum()),
        "overconfidence": (share * np.maximum(gap, 0)).sum(),
        "underconfidence": (share * np.maximum(-gap, 0)).sum(),
        "nll": nll,
        "brier": ((probs - onehot) ** 2).sum(1).mean(),
        "bin_count": np.array([len(rows) for rows in members]),
        "bin_accuracy": accuracies,
        "bin_confidence": confidences,
    }


def classwise_ece(probs: Array, labels: Labels, bins: int) -> float:
    examples, classes = probs.shape
    errors = []
    for c in range(classes):
        error = 0.0
        for b in range(bins):
            rows = [i for i in range(examples) if which_bin(probs[i, c], bins) == b]
            if rows:
                error += len(rows) / examples * abs(np.mean(labels[rows] == c) - probs[rows, c].mean())
        errors.append(error)
    return float(np.mean(errors))


def which_bin(value: float, bins: int) -> int:
    """The bin (lo, hi] of a value, found by walking up the edges; 0 belongs to the first."""
    for b in range(bins):
        if value <= (b + 1) / bins:
            return b
    return bins - 1


def coverage(confidence: Array, correct: NDArray[np.bool_], threshold: float, bins: int) -> float:
    index = np.array([which_bin(value, bins) for value in confidence])
    accuracy = {b: correct[index == b].mean() for b in set(index.tolist())}
    return float(np.mean([c > threshold and accuracy[b] > threshold for c, b in zip(confidence, index, strict=True)]))


def focal(logits: Array, labels: Labels, gamma: Any) -> Array:
    """``gamma`` maps the probability of the label to γ; a negative one stands for the inverse focal loss."""
    result = np.zeros(len(labels))
    for row, label in enumerate(labels):
        for probs in softmax(logits)[:, row]:
            p, power = probs[label], gamma(probs[label])
            factor = (1 - p) ** power if power >= 0 else (1 + p) ** -power
            result[row] -= factor * np.log(p) / len(logits)
    return result


def dual_focal(logits: Array, labels: Labels, gamma: float) -> Array:
    result = np.zeros(len(labels))
    for row, label in enumerate(labels):
        for probs in softmax(logits)[:, row]:
            lower = [p for p in probs if p < probs[label]]
            result[row] -= (1 - probs[label] + max(lower, default=0)) ** gamma * np.log(probs[label]) / len(logits)
    return result


def mmce(probs: Array, labels: Labels) -> float:
    confidence, correct = probs.max(1), probs.argmax(1) == labels
    total = 0.0
    for r, a in zip(confidence, correct, strict=True):
        for s, b in zip(confidence, correct, strict=True):
            total += (a - r) * (b - s) * np.exp(-abs(r - s) / 0.4)
    return float(np.sqrt(max(total, 0)) / len(labels))  # rounding can give −1e-17


def mdca(probs: Array, labels: Labels) -> float:
    classes = probs.shape[1]
    return float(np.mean([abs(probs[:, c].mean() - np.mean(labels == c)) for c in range(classes)]))


def dca(probs: Array, labels: Labels) -> float:
    return float(abs(probs.max(1).mean() - np.mean(probs.argmax(1) == labels)))


def soft_ece(probs: Array, labels: Labels, bins: int = 15, temperature: float = 0.01) -> float:
    confidence, correct = probs.max(1), probs.argmax(1) == labels
    centres = [(j + 0.5) / bins for j in range(bins)]
    membership = np.array([softmax(np.array([-((r - c) ** 2) / temperature for c in centres])) for r in confidence])
    total = 0.0
    for j in range(bins):
        size = membership[:, j].sum()
        gap = (membership[:, j] * correct).sum() / size - (membership[:, j] * confidence).sum() / size
        total += size / len(labels) * gap**2
    return float(np.sqrt(total))


def margin_excess(logits: Array, margin: float) -> Array:
    result: Array = np.maximum(0, logits.max(-1, keepdims=True) - logits - margin).mean(-1).mean(0)
    return result


def brier(logits: Array, target: Array) -> Array:
    result: Array = ((softmax(logits) - target) ** 2).sum(-1).mean(0)
    return result


def adaptive_gammas(gammas: Array, logits: Array, labels: Labels) -> tuple[Array, Array]:
    """The γ of every bin after one update of AdaFocal, and the inner edges of bins of equal size."""
    probs, bins = softmax(logits), len(gammas)
    confidence, correct = probs.max(1), probs.argmax(1) == labels
    ordered = sorted(confidence)
    edges = np.array([ordered[j * len(ordered) // bins] for j in range(1, bins)])
    result = gammas.copy()
    for b in range(bins):
        inside = [i for i, r in enumerate(confidence) if sum(r >= edge for edge in edges) == b]
        if not inside:
            continue
        error = confidence[inside].mean() - correct[inside].mean()
        if gammas[b] > 0:
            moved = min(20, gammas[b] * np.exp(error))
            result[b] = moved if moved >= 0.2 else -0.2
        else:
            moved = max(-2, gammas[b] * np.exp(-error))
            result[b] = moved if moved <= -0.2 else 0.2
    return result, edges
