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


def points(share: float, margin: float = 0.0) -> str:
    """Format a difference of shares in percentage points, with its margin of error if that is relatively large.

    >>> points(0.081), points(0.0104), points(0.004), points(1e-9)
    ('8 points', '1 point', '0.4 points', 'less than 0.1 points')
    >>> points(0.14, 0.11), points(0.14, 0.02)
    ('14 ± 11 points', '14 points')
    >>> points(0.0104, 0.004)
    '1.0 ± 0.4 points'
    """
    if margin > share / 4 and share >= 0.0095:
        digits = 0 if margin >= 0.0095 else 1
        return f"{share * 100:.{digits}f} ± {margin * 100:.{digits}f} points"
    if share < 0.001:
        return "less than 0.1 points"
    value = f"{share * 100:.0f}" if share >= 0.0095 else f"{share * 100:.1g}"
    return f"{value} point{'' if value == '1' else 's'}"


def percent(part: int, whole: int) -> str:
    """Format a share in percent, with enough digits that only all is 100 % and only none is 0 %.

    >>> percent(711, 1000), percent(9999, 10000), percent(5, 5)
    ('71 %', '99.99 %', '100 %')
    """
    for digits in range(8):
        text = f"{100 * part / whole:.{digits}f}"
        if float(text) not in {0.0, 100.0} or part in {0, whole}:
            break
    return f"{text} %"
