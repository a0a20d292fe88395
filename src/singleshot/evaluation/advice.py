"""Advice on the disagreement measure or on its alternatives, from the calibration on held-out examples."""

from __future__ import annotations

from singleshot.common.checks import check_choice
from singleshot.evaluation.claims import mean_gap
from singleshot.evaluation.evaluation import MIN_RESAMPLED, Evaluation
from singleshot.evaluation.formatting import points
from singleshot.evaluation.verdict import SMALL
from singleshot.uncertainty import MEASURES

WEAK_MEASURES = ("bhattacharyya", "unbiased")
STRONG_MEASURES = ("total_variation", "hellinger")
OTHERWISE = (
    "a strength that tunes itself (--strength auto, ss.SelfTunedStrength in Python), or a temperature "
    "(singleshot calibrate, ss.TemperatureScaling in Python)."
)


def advise(evaluation: Evaluation, *, measure: str = "bhattacharyya") -> str | None:
    """Suggest a stronger disagreement measure for an overconfident network, a weaker one for an underconfident one.

    If no such measure is known, suggest a strength that tunes itself, a temperature, or, for an underconfident network,
    plain cross-entropy. None if the gap between confidence and accuracy is small or chance can explain it. ``singleshot
    train`` prints the same at its end.

    Args:
        evaluation: of a network that was trained with the VWCI loss, on held-out examples. They must not be the test
            examples: advice is model selection.
        measure: the disagreement measure that it was trained with.

    >>> import torch
    >>> from singleshot import evaluate
    >>> logits, labels = torch.tensor([[4.0, 0.0]] * 100), torch.tensor([0] * 80 + [1] * 20)
    >>> print(advise(evaluate(logits, labels)).partition(" (")[0])  # .98 confident, .8 accurate
    Overconfident by 18.2 ± 9 points on held-out examples: try --measure total_variation
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
    size = f"{points(abs(gap), margin=margin)} on held-out examples"
    if gap > 0 and measure in WEAK_MEASURES:
        return f"Overconfident by {size}: try {_named(STRONG_MEASURES[0])}, which regularises more."
    if gap < 0 and measure in STRONG_MEASURES:
        return f"Underconfident by {size}: try {_named(WEAK_MEASURES[0])}, which regularises less."
    if gap > 0:
        return f"Overconfident by {size}: try {OTHERWISE}"
    return f"Underconfident by {size}: try plain cross-entropy (--loss cross_entropy), {OTHERWISE}"


def _named(measure: str) -> str:
    return f'--measure {measure} (measure="{measure}" in Python)'
