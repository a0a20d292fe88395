"""Which reading of α to try next, by what a run of VWCI says about images it was not trained on.

No reading is right for every network (docs/results.md), but one look at held-out images tells which way to go.
"""

from __future__ import annotations

from singleshot.metrics.examples import Examples
from singleshot.predictions.evaluation import FEWEST_RESAMPLED
from singleshot.report.verdict import SMALL, mean_gap, points
from singleshot.training.recipe import Recipe

_GENTLE = ("bhattacharyya", "unbiased")
_BOLD = ("total_variation", "hellinger")


def reading_advice(recipe: Recipe, held_out: Examples) -> str | None:
    """A bolder reading for a network that is still overconfident, a gentler one for the contrary; None without need.

    Only a gap that chance cannot have made counts. ``held_out`` must not be test images: advice is a choice.
    """
    if recipe.loss != "vwci" or len(held_out) < FEWEST_RESAMPLED:
        return None
    gap, reach = mean_gap(held_out)
    if abs(gap) - reach <= SMALL:
        return None
    size = f"{points(abs(gap), reach)} on held-out images"
    if gap > 0 and recipe.variance in _GENTLE:
        return f"Overconfident by {size}: --variance {_BOLD[0]} reads the same disagreement more boldly."
    if gap < 0 and recipe.variance in _BOLD:
        return f"Underconfident by {size}: --variance {_GENTLE[0]} reads the same disagreement more gently."
    return None
