"""The rows of docs/comparison.md about metrics and temperatures; right answers are computed with numpy."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from comparison_rows import TEMPERATURE, compared, ece_of, predictions, row
from library_adapters import Scores, softmax

ECE = r"calibration_?error|\bECE\b"
EDGE = np.array([[1.0, 0.0], [0.95, 0.05]], np.float32), np.array([1, 0])


@row("ECE of confidence 1.0 (wrong) and 0.95 (right): 0.475", needs="ece", pattern=ECE, missing="no ECE")
def ece_at_one(library: Any) -> str:
    return compared(library.ece(*EDGE), 0.475)


@row(
    "ECE of binary probabilities 0.0 (label 1) and 0.03 (label 0): 0.485",
    needs="binary_ece",
    pattern=ECE,
    missing="no ECE",
)
def ece_at_zero(library: Any) -> str:
    return compared(library.binary_ece(np.array([0.0, 0.03], np.float32), np.array([1, 0])), 0.485)


@row("ECE of logits that happen to lie in [0, 1]: 0.396", needs="ece", pattern=ECE, missing="no ECE")
def ece_of_logits(library: Any) -> str:
    logits, labels = predictions(1000, 10)
    logits = (logits - logits.min()) / np.float32(np.ptp(logits))
    right = ece_of(softmax(logits), labels)
    assert f"{right:.3f}" == "0.396", right
    if not hasattr(library, "ece_of_logits"):
        return f"takes probabilities only, and these without an error: {library.ece(logits, labels):.3f}"
    return compared(library.ece_of_logits(logits, labels), right, tolerance=1e-5)


@cache
def tempered(temperature: float) -> tuple[Scores, Scores]:
    """Float32 logits of which the best temperature is as given."""
    logits, labels = predictions(2000, 50, 3.0)
    exact = logits.astype(float)

    def slope(inverse: float) -> float:
        expected = (softmax(inverse * exact) * exact).sum(1)
        return float((expected - exact[np.arange(len(exact)), labels]).mean())

    low, high = 0.5, 2.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return (exact * temperature * low).astype(np.float32), labels


@row("temperature fit, float32 logits, best τ = 2.478", needs="temperature", pattern=TEMPERATURE)
def temperature(library: Any) -> str:
    return compared(library.temperature(*tempered(2.478)), 2.478, tolerance=0.01)


@row("the same logits in float64", needs="temperature", pattern=TEMPERATURE)
def double_temperature(library: Any) -> str:
    logits, labels = tempered(2.478)
    return compared(library.temperature(logits.astype(float), labels), 2.478, tolerance=0.01)


@row("temperature fit, float32 logits, best τ = 12", needs="temperature", pattern=TEMPERATURE)
def high_temperature(library: Any) -> str:
    return compared(library.temperature(*tempered(12.0)), 12.0, tolerance=0.01)


def large() -> tuple[Scores, Scores]:
    logits, labels = predictions(100_000, 10)
    return softmax(logits), labels


@row(
    "state of the ECE after 100,000 examples of 10 classes",
    needs="state_bytes",
    pattern="merge_state",
    missing="no state",
)
def state(library: Any) -> str:
    return f"{library.state_bytes(*large()):,} bytes"


@row("state of the classwise ECE after the same", needs="classwise_bytes", pattern="classwise_?(ece|calibration)")
def classwise_state(library: Any) -> str:
    return f"{library.classwise_bytes(*large()):,} bytes"


@row("merges the states of two halves", needs="merged_ece", pattern="merge_state")
def merge(library: Any) -> str:
    logits, labels = predictions(1000, 10)
    probs = softmax(logits)
    found = library.merged_ece([(probs[:500], labels[:500]), (probs[500:], labels[500:])])
    return "yes" if abs(found - ece_of(probs, labels)) < 1e-6 else "wrong"


@row("ECE of examples spread over two processes", needs="shared_ece", pattern="all_reduce|dist_sync|gather_all")
def processes(library: Any) -> str:
    from torch.multiprocessing.spawn import spawn

    logits, labels = predictions(1000, 10)
    with tempfile.TemporaryDirectory() as folder:
        spawn(share, (library, folder), nprocs=2)  # type: ignore[no-untyped-call]
        found = float(Path(folder, "ece").read_text("utf-8"))
    return "yes" if abs(found - ece_of(softmax(logits), labels)) < 1e-6 else f"wrong: {found:.3f}"


def share(rank: int, library: Any, folder: str) -> None:
    """One process of two: compute the ECE of all examples, given half of them."""
    from torch import distributed

    library.prepare()
    distributed.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=2)
    logits, labels = predictions(1000, 10)
    found = library.shared_ece(softmax(logits)[rank::2], labels[rank::2])
    if rank == 0:
        Path(folder, "ece").write_text(str(found), "utf-8")
    distributed.destroy_process_group()


@row("Brier score of several classes", needs="brier", pattern="brier")
def brier(library: Any) -> str:
    logits, labels = predictions(1000, 10)
    right = float(np.square(softmax(logits.astype(float)) - np.eye(10)[labels]).sum(1).mean())
    found = library.brier(softmax(logits), labels)
    return "yes" if abs(found - right) < 1e-6 else f"wrong: {found:.4f} for {right:.4f}"


@row("debiased ECE of calibrated predictions (the plain one is 0.029)", needs="debiased_ece", pattern="debias|unbias")
def debiased(library: Any) -> str:
    logits, labels = predictions(1000, 10)
    assert f"{ece_of(softmax(logits), labels):.3f}" == "0.029"
    return f"{library.debiased_ece(softmax(logits), labels):.3f}"


@row(
    "95 % interval of their ECE, of which the true value is 0",
    needs="interval",
    pattern="bootstrapper|confidence_interval",
)
def interval(library: Any) -> str:
    import torch

    torch.manual_seed(0)
    logits, labels = predictions(1000, 10)
    low, high = library.interval(softmax(logits), labels)
    return f"{low:.3f} to {high:.3f}" + ("" if low <= 0 else ", without 0")


@row("AURC", needs="aurc", pattern="aurc|risk_?coverage")
def aurc(library: Any) -> str:
    logits, labels = predictions(1000, 10)
    probs = softmax(logits)
    errors = (probs.argmax(1) != labels)[np.argsort(-probs.max(1), kind="stable")]
    right = float((errors.cumsum() / np.arange(1, 1001)).mean())
    found = library.aurc(probs, labels)
    return "yes" if abs(found - right) < 1e-4 else f"{found:.4f} for {right:.4f}"
