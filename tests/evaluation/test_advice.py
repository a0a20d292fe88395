"""Advice for a gap that chance does not explain: a tuned strength, then a measure where there is evidence for one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import torch

import singleshot as ss
from singleshot.evaluation.evaluation import Evaluation
from singleshot.training.recipe import Recipe


def held_out(confidence: float, accuracy: float, count: int = 1000) -> Evaluation:
    probs = torch.tensor([[confidence, 1 - confidence]]).expand(count, 2)
    return ss.evaluate(probs, (torch.arange(count) >= accuracy * count).long(), kind="probs", replicates=0)


WITH_HELD_OUT = (
    "a strength that tunes itself (--strength auto, ss.SelfTunedStrength in Python), or a temperature "
    "(singleshot calibrate, ss.TemperatureScaling in Python)"
)


@pytest.mark.parametrize("measure", ["bhattacharyya", "unbiased"])
def test_an_overconfident_network_needs_a_tuned_strength_or_a_stronger_measure(measure: str) -> None:
    assert ss.advise(held_out(0.9, 0.6), measure=measure) == (
        f"Overconfident by 30 points on held-out examples: try {WITH_HELD_OUT}. "
        "If you cannot hold out examples in training, "
        'try --measure total_variation (measure="total_variation" in Python), '
        "which regularises more."
    )


@pytest.mark.parametrize("measure", ["total_variation", "hellinger"])
def test_an_underconfident_network_needs_a_tuned_strength_or_a_weaker_measure(measure: str) -> None:
    assert ss.advise(held_out(0.6, 0.9), measure=measure) == (
        f"Underconfident by 30 points on held-out examples: try {WITH_HELD_OUT}. "
        "If you cannot hold out examples in training, "
        'try --measure bhattacharyya (measure="bhattacharyya" in Python), '
        "which regularises less."
    )


@pytest.mark.parametrize("measure", ["bhattacharyya", "unbiased", "epistemic"])
def test_an_underconfident_network_without_a_weaker_measure(measure: str) -> None:
    assert ss.advise(held_out(0.6, 0.9), measure=measure) == (
        "Underconfident by 30 points on held-out examples: try plain cross-entropy (--loss cross_entropy), "
        + WITH_HELD_OUT
        + "."
    )


@pytest.mark.parametrize("measure", ["total_variation", "hellinger", "epistemic"])
def test_an_overconfident_network_without_a_stronger_measure(measure: str) -> None:
    assert ss.advise(held_out(0.9, 0.6), measure=measure) == (
        "Overconfident by 30 points on held-out examples: try " + WITH_HELD_OUT + "."
    )


@pytest.mark.parametrize(
    ("measure", "confidence", "accuracy", "count"),
    [
        ("bhattacharyya", 0.9, 0.9, 1000),  # calibrated
        ("bhattacharyya", 0.9, 0.8, 50),  # chance may explain it
        ("bhattacharyya", 0.95, 0.0, 1),  # too few examples
        ("bhattacharyya", 0.95, 0.0, 2),
    ],
)
def test_no_advice(measure: str, confidence: float, accuracy: float, count: int) -> None:
    assert ss.advise(held_out(confidence, accuracy, count), measure=measure) is None


def test_errors() -> None:
    with pytest.raises(ValueError, match="measure='bold' is unknown"):
        ss.advise(held_out(0.9, 0.6), measure="bold")
    with pytest.raises(TypeError, match=r"evaluation must be the result of evaluate\(\), got dict"):
        ss.advise({})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="did not keep; evaluate with replicates=1000"):
        ss.advise(replace(held_out(0.9, 0.6), examples=None))


@pytest.mark.parametrize(
    ("measure", "confidence", "accuracy", "named"),
    [
        ("bhattacharyya", 0.9, 0.6, [("--strength", "auto"), ("--measure", "total_variation")]),
        ("total_variation", 0.6, 0.9, [("--strength", "auto"), ("--measure", "bhattacharyya")]),
        ("bhattacharyya", 0.6, 0.9, [("--loss", "cross_entropy"), ("--strength", "auto")]),
    ],
)
def test_the_flags_that_are_named_exist(
    measure: str, confidence: float, accuracy: float, named: list[tuple[str, str]]
) -> None:
    advice = ss.advise(held_out(confidence, accuracy), measure=measure)
    assert advice is not None
    assert re.findall(r"(--\w+) (\w+)", advice) == named
    changes: dict[str, Any] = {flag.removeprefix("--"): value for flag, value in named}
    for name, value in changes.items():
        assert getattr(replace(Recipe(), **{name: value}).resolved(), name) == value
