"""When a run of VWCI is told to try another reading of α."""

from __future__ import annotations

import pytest
import torch

from singleshot.evaluation.verdict import measure_advice
from singleshot.metrics.examples import Examples
from singleshot.training.recipe import LossName, MeasureName, Recipe


def answers(confidence: float, accuracy: float, count: int = 1000) -> Examples:
    probs = torch.tensor([[confidence, 1 - confidence]]).expand(count, 2)
    return Examples.of(probs=probs, labels=(torch.arange(count) >= accuracy * count).long())


@pytest.mark.parametrize("measure", ["bhattacharyya", "unbiased"])
def test_an_overconfident_network_is_told_of_a_bolder_reading(measure: MeasureName) -> None:
    said = measure_advice(Recipe(measure=measure), answers(0.9, 0.6))
    assert said == ("Overconfident by 30 points on held-out images: try --measure total_variation, which pulls harder.")


@pytest.mark.parametrize("measure", ["total_variation", "hellinger"])
def test_an_underconfident_network_is_told_of_a_gentler_reading(measure: MeasureName) -> None:
    said = measure_advice(Recipe(measure=measure), answers(0.6, 0.9))
    assert said is not None
    assert said.startswith(
        "Underconfident by 30 points on held-out images: try --measure bhattacharyya, which pulls less"
    )


@pytest.mark.parametrize(
    ("loss", "measure", "confidence", "accuracy", "count"),
    [
        ("vwci", "bhattacharyya", 0.9, 0.9, 1000),  # nothing to mend
        ("vwci", "bhattacharyya", 0.9, 0.8, 50),  # chance may have made it
        ("vwci", "bhattacharyya", 0.95, 0.0, 1),  # too few to judge
        ("vwci", "bhattacharyya", 0.95, 0.0, 2),
        ("vwci", "bhattacharyya", 0.6, 0.9, 1000),  # nothing is gentler
        ("vwci", "total_variation", 0.9, 0.6, 1000),  # nothing is bolder
        ("vwci", "epistemic", 0.9, 0.6, 1000),  # neither: no evidence which way to go from there
        ("cross_entropy", "bhattacharyya", 0.9, 0.6, 1000),  # has no α
    ],
)
def test_there_is_no_advice_without_need(
    loss: LossName, measure: MeasureName, confidence: float, accuracy: float, count: int
) -> None:
    assert measure_advice(Recipe(loss=loss, measure=measure), answers(confidence, accuracy, count)) is None
