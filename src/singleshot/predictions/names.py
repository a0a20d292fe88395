"""The names that programs give to scores, labels, predicted classes and confidences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

Kind = Literal["logits", "probs", "confidence"]
KINDS: tuple[Kind, ...] = ("logits", "probs", "confidence")
"""Scores of every class as logits or probabilities, or only the confidence of the predicted class."""

LOGITS = ("logits", "logit", "y_logits")
PROBS = (
    *("probs", "probabilities", "prob", "probability", "proba", "probas", "y_prob", "y_probs", "y_proba", "pred_prob"),
    *("pred_probs", "pred_proba", "predict_proba", "predicted_probability", "predicted_probabilities", "softmax"),
)
ARRAY_KINDS: dict[str, Kind] = {**dict.fromkeys(LOGITS, "logits"), **dict.fromkeys(PROBS, "probs")}
PREFIX_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("logit_", "logits_"), "logits"),
    **dict.fromkeys(("prob_", "probs_", "proba_", "probability_"), "probs"),
}
PASS_KINDS: dict[str, Kind] = {"pass_logits": "logits", "pass_probs": "probs"}
LABELS = (
    *("labels", "label", "true_labels", "true_label", "y_true", "targets", "target", "ground_truth", "gold_label"),
    *("gold", "truth", "true", "true_class", "actual", "gt", "label_ids", "y_test", "y"),
)
PREDICTED = (
    *("predicted", "prediction", "predictions", "pred", "preds", "pred_label", "pred_labels", "predicted_label"),
    *("predicted_labels", "y_pred", "pred_class", "predicted_class", "top1", "top1_label", "top1_class", "y_hat"),
)
CORRECT = ("correct", "is_correct", "correctness", "right", "hit")
CONFIDENCE = (
    *("confidence", "confidences", "conf", "max_prob", "max_probability", "top_prob", "top1_prob", "top1_confidence"),
    *("pred_confidence", "prediction_confidence", "predicted_confidence", "msp", "certainty"),
)
UNCLEAR = ("score", "scores", "pred_score", "prediction_score", "top1_score", *PROBS)
"""Names of one column that can be the confidence of the predicted class or the probability of the positive class."""
NOT_SCORES = ("", "index", "id", "idx", "unnamed_0", "image_id", "example_id", "row", "fold", "split")
"""Columns of numbers that are not scores."""


def plain(name: str) -> str:
    """Return a name in lower case, with an underscore in place of other signs.

    >>> plain("True Label"), plain("Unnamed: 0"), plain("top-1_prob")
    ('true_label', 'unnamed_0', 'top_1_prob')
    """
    return re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")


def known(names: Sequence[str], aliases: Iterable[str]) -> list[str]:
    """Return the names that are aliases, in the order of the aliases."""
    order = {alias: place for place, alias in enumerate(aliases)}
    return sorted((name for name in names if plain(name) in order), key=lambda name: order[plain(name)])
