"""Numbers and metric names as text."""

from __future__ import annotations

LABELS = {
    "accuracy": "Accuracy",
    "mean_confidence": "Mean confidence",
    "ece": "ECE",
    "debiased_ece": "ECE, debiased",
    "adaptive_ece": "ECE, equal-mass",
    "smooth_ece": "ECE, smooth",
    "classwise_ece": "ECE, classwise",
    "mce": "MCE",
    "rmsce": "RMSCE",
    "nll": "NLL",
    "brier": "Brier",
    "aurc": "AURC",
    "excess_aurc": "AURC, excess",
    "overconfidence": "Overconfidence",
    "underconfidence": "Underconfidence",
}
"""Labels of the metrics, in the order of the tables."""


def difference_label(name: str) -> str:
    """Name of a metric's difference: ECEs are compared after debiasing."""
    return LABELS["debiased_ece" if name == "ece" else name]


def number(value: float, width: int = 8, sign: str = "") -> str:
    """Format a value with four decimals, or with an exponent if it is large.

    >>> number(0.5), number(1e30), number(0.5, 0, "+")
    ('  0.5000', '   1e+30', '+0.5000')
    """
    return f"{value:{sign}{width}.4f}" if abs(value) < 1000 else f"{value:{sign}{width}.4g}"


def amount(count: int, singular: str, plural: str | None = None) -> str:
    """Format a count with its noun.

    >>> amount(1, "example"), amount(1500, "example"), amount(2, "class", "classes")
    ('1 example', '1,500 examples', '2 classes')
    """
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def points(share: float, digits: int = 1, margin: float = 0.0) -> str:
    """Format a difference of shares in percentage points, with its margin of error if that is relatively large.

    >>> points(0.081), points(0.0104), points(0.0049, 2), points(1e-9)
    ('8.1 points', '1 point', '0.49 points', 'less than 0.1 points')
    >>> points(0.14, 1, 0.11), points(0.14, 1, 0.02)
    ('14 ± 11 points', '14 points')
    """
    if round(share, digits + 2) == 0:
        return f"less than {10.0**-digits:g} points"
    value = _short(share, digits)
    if margin > share / 4:
        return f"{value} ± {100 * margin:.2g} points"
    return f"{value} point{'' if value == '1' else 's'}"


def share_text(share: float, digits: int = 1) -> str:
    """Format a share in percent.

    >>> share_text(0.9975, 2), share_text(0.96, 2), share_text(1.0)
    ('99.75 %', '96 %', '100 %')
    """
    return f"{_short(share, digits)} %"


def times(multiple: float) -> str:
    """Format a multiple.

    >>> times(16.6), times(3.04), times(1e9)
    ('16.6 times', '3 times', 'more than 1,000 times')
    """
    return f"{_short(multiple / 100, 1)} times" if multiple <= 1000 else "more than 1,000 times"


def _short(share: float, digits: int) -> str:
    """Format a share in percent, without trailing zeros."""
    text = f"{100 * share:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
