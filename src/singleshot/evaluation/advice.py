"""Advice on the strength of the VWCI loss or on its alternatives, from the calibration on held-out examples."""

from __future__ import annotations

from singleshot.common.checks import check_choice
from singleshot.evaluation.claims import mean_gap
from singleshot.evaluation.evaluation import MIN_RESAMPLED, Evaluation
from singleshot.evaluation.formatting import points
from singleshot.evaluation.verdict import SMALL
from singleshot.uncertainty import MEASURES

WEAK_MEASURES = ("bhattacharyya", "unbiased")
STRONG_MEASURES = ("total_variation", "hellinger")
WITH_HELD_OUT = (
    "a strength that tunes itself (--strength auto, ss.SelfTunedStrength in Python), or a temperature "
    "(singleshot calibrate, ss.TemperatureScaling in Python)"
)


def advise(evaluation: Evaluation, *, measure: str = "bhattacharyya") -> str | None:
    """Suggest what to try if chance does not explain the gap between confidence and accuracy.

    A strength that tunes itself on held-out examples or a temperature; a stronger or weaker disagreement measure for
    those who cannot hold out any; plain cross-entropy if a network is underconfident and no weaker measure is known.
    None if the gap is small or chance can explain it. ``singleshot train`` prints the same at its end if the strength
    is fixed and images are held out.

    Args:
        evaluation: of a network that was trained with the VWCI loss, on held-out examples. They must not be the test
            examples: advice is model selection.
        measure: the disagreement measure that it was trained with.

    >>> import torch
    >>> from singleshot import evaluate
    >>> logits, labels = torch.tensor([[4.0, 0.0]] * 100), torch.tensor([0] * 80 + [1] * 20)
    >>> print(advise(evaluate(logits, labels)).partition(" (")[0])  # .98 confident, .8 accurate
    Overconfident by 18.2 ± 9 points on held-out examples: try a strength that tunes itself
    """
    check_choice("measure", measure, tuple(MEASURES))
    if not isinstance(evaluation, Evaluation):
        kind = type(evaluation).__name__
        raise TypeError(f"evaluation must be the result of evaluate(), got {kind}; pass evaluate(model, loader)")
    held_out = evaluation.examples
    if held_out is None:
        raise ValueError("advice needs the examples, which this evaluation did not keep; evaluate with replicates=1000")
    if len(held_out) < MIN_RESAMPLED:
        return None
    gap, margin = mean_gap(held_out)
    if abs(gap) - margin <= SMALL:
        return None
    finding = f"{'Over' if gap > 0 else 'Under'}confident by {points(abs(gap), margin=margin)} on held-out examples"
    if gap > 0 and measure in WEAK_MEASURES:
        return f"{finding}: try {WITH_HELD_OUT}. {_other_measure(STRONG_MEASURES[0], 'more')}"
    if gap < 0 and measure in STRONG_MEASURES:
        return f"{finding}: try {WITH_HELD_OUT}. {_other_measure(WEAK_MEASURES[0], 'less')}"
    if gap > 0:
        return f"{finding}: try {WITH_HELD_OUT}."
    return f"{finding}: try plain cross-entropy (--loss cross_entropy), {WITH_HELD_OUT}."


def _other_measure(measure: str, regularises: str) -> str:
    """What is left to choose without held-out examples."""
    named = f'--measure {measure} (measure="{measure}" in Python)'
    return f"If you cannot hold out examples in training, try {named}, which regularises {regularises}."
