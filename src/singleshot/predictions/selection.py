"""Find the arrays or columns that hold scores and labels, by their names or those that the caller gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from singleshot.common.text import listed, shown
from singleshot.predictions.names import (
    ARRAY_KINDS,
    CONFIDENCE,
    CORRECT,
    LABELS,
    NOT_SCORES,
    PASS_KINDS,
    PREDICTED,
    PREFIX_KINDS,
    PROBS,
    UNCLEAR,
    Kind,
    known,
    plain,
)

SET_KIND = "set --kind logits or --kind probs (kind= in Python)"
SET_LABELS = "set --labels NAME (labels= in Python)"
TOP_CLASS = (
    "If the file has only the predicted class and its confidence, set --kind confidence --scores NAME --predicted NAME"
)


First = TypeVar("First")
Second = TypeVar("Second")


class Selection(NamedTuple):
    """The names and the kind that the caller specifies."""

    scores: str | None = None
    kind: Kind | None = None
    labels: str | None = None
    predicted: str | None = None
    positive: str | None = None


class Layout(NamedTuple):
    """Where a table has its scores, labels and, for a confidence, the predicted classes."""

    kind: Kind
    columns: tuple[int, ...]  # of the scores, in class order
    class_names: tuple[str, ...] | None
    labels: int
    predicted: int | None = None
    is_unclear: bool = False  # whether a confidence can be the probability of the positive class
    are_assumed: bool = False  # whether the classes are all columns but the label, which may include others


class TopClass(NamedTuple):
    """The names of the confidence, of the predicted class if there is one, and of the labels."""

    confidence: str
    predicted: str | None
    labels: str
    is_unclear: bool


def find_array(path: Path, names: Sequence[str], selection: Selection) -> tuple[str, Kind]:
    """Return the name and kind of the array, tensor or list column that holds the scores."""
    scores, kind = selection.scores, selection.kind
    if scores is not None:
        if scores not in names:
            raise ValueError(f"{path} has no {scores!r}; found {listed(names)}")
        stated = kind or ARRAY_KINDS.get(plain(scores))
        if stated is None:
            raise ValueError(f"{path}: unclear whether {scores!r} holds logits or probabilities; {SET_KIND}")
        return scores, stated
    found = [name for name in known(names, ARRAY_KINDS) if kind in (None, ARRAY_KINDS[plain(name)])]
    if not found:
        expected = f"{kind!r}" if kind else "'logits' or 'probs'"
        raise ValueError(
            f"{path} has no {expected}; found {listed(names)}. If one of these holds the scores, "
            "set --scores NAME --kind logits (or probs)"
        )
    if len(found) > 1:
        is_clear = len({ARRAY_KINDS[plain(name)] for name in found}) == 1
        how = "set --scores NAME (scores= in Python)" if is_clear else SET_KIND
        raise ValueError(f"{path} has {' and '.join(map(shown, found))}; {how}")
    return found[0], ARRAY_KINDS[plain(found[0])]


def find_labels(path: Path, names: Sequence[str], selection: Selection) -> str:
    """Return the name of the array or column that holds the labels."""
    # The first two are the documented names; the others count only without these.
    found = known(names, LABELS[:2]) or known(names, LABELS)
    if selection.labels is not None:
        found = [name for name in names if name == selection.labels]
    if not found:
        wanted = "labels" if selection.labels is None else selection.labels
        raise ValueError(
            f"{path} has no {wanted!r}; found {listed(_others_first(names))}. If one of these holds the labels, "
            f"{SET_LABELS}"
        )
    if len(found) > 1:
        raise ValueError(f"{path} has {' and '.join(map(shown, found))}; {SET_LABELS}")
    return found[0]


def find_passes(path: Path, names: Sequence[str], used: Sequence[str]) -> tuple[str, Kind] | None:
    """Return the name and kind of the array of stochastic passes, if any, unless it is ``used`` otherwise.

    >>> find_passes(Path("a.npz"), ["logits", "labels", "pass_probs"], ("logits", "labels"))
    ('pass_probs', 'probs')
    """
    found = [name for name in PASS_KINDS if name in names and name not in used]
    if len(found) > 1:
        raise ValueError(f"{path} has both {' and '.join(map(shown, found))}; keep only one of them")
    return (found[0], PASS_KINDS[found[0]]) if found else None


def find_top_class(path: Path, names: Sequence[str], selection: Selection) -> TopClass | None:
    """Return the names in a file that has only the confidence of the predicted class, or None if it is another file."""
    stated = selection.kind == "confidence"
    if not stated and (selection.kind is not None or selection.scores is not None):
        return None
    for name in (selection.predicted, selection.scores):
        if name is not None and name not in names:
            raise ValueError(f"{path} has no {name!r}; found {listed(names)}")
    predicted = [selection.predicted] if selection.predicted else known(names, PREDICTED)
    correct = known(names, CORRECT)
    scores = [selection.scores] if selection.scores else known(names, CONFIDENCE)
    unclear = [] if scores else known(names, UNCLEAR)
    confidence = [*scores, *unclear][:1]
    if not confidence or not (predicted or correct):
        if stated:
            raise ValueError(
                f"{path} has no confidence and predicted class; found {listed(names)}. Set --scores NAME --predicted "
                "NAME (predicted= in Python)"
            )
        return None
    if not predicted:
        return TopClass(confidence[0], None, correct[0], is_unclear=False)
    rest = [name for name in names if name not in (*predicted, *confidence)]
    return TopClass(confidence[0], predicted[0], find_labels(path, rest, selection), bool(unclear) and not stated)


def find_columns(path: Path, headings: Sequence[str], selection: Selection) -> Layout:
    """Return where a table has its scores and labels.

    The scores are columns that start with logit_ or prob_, or with the caller's prefix; one column of probabilities of
    the positive class; the confidence of the predicted class; or, if the caller gives the kind, a column per class.

    >>> find_columns(Path("a.csv"), ["prob_cat", "label", "prob_dog"], Selection())[:4]
    ('probs', (0, 2), ('cat', 'dog'), 1)
    """
    by_prefix = [name for name in headings if _prefix(name) and name != selection.labels]
    top = find_top_class(path, headings, selection) if len(by_prefix) < 2 else None
    if top is not None:
        place = headings.index
        predicted = None if top.predicted is None else place(top.predicted)
        return Layout(
            kind="confidence",
            columns=(place(top.confidence),),
            class_names=None,
            labels=place(top.labels),
            predicted=predicted,
            is_unclear=top.is_unclear,
        )
    label, (kind, columns, names) = all_found(
        lambda: find_labels(path, headings, selection), lambda: _find_score_columns(path, headings, selection)
    )
    are_assumed = selection.scores is None and any(
        headings[column] == name and not _is_number(name) for column, name in zip(columns, names or (), strict=False)
    )
    return Layout(kind, columns, names, headings.index(label), are_assumed=are_assumed)


def all_found(find_first: Callable[[], First], find_second: Callable[[], Second]) -> tuple[First, Second]:
    """Return what both functions find, or raise one error with the messages of both."""
    try:
        first = find_first()
    except ValueError as error:
        try:
            find_second()
        except ValueError as other:
            raise ValueError(f"{error}. Also: {other}") from None
        raise
    return first, find_second()


ScoreColumns = tuple[Kind, tuple[int, ...], tuple[str, ...] | None]
"""The kind of the scores, and the index and class name of each score column, in class order."""


def _find_score_columns(path: Path, headings: Sequence[str], selection: Selection) -> ScoreColumns:
    scores, kind = selection.scores, selection.kind
    label = selection.labels or next(iter(known(headings, LABELS)), None)  # the documented names are the first
    if scores is not None and (scores in headings or "," in scores):
        return _named_columns(path, headings, selection)
    prefixes = [(prefix, of) for prefix, of in PREFIX_KINDS.items() if kind in (None, of)]
    if scores is not None:
        if not any(name.startswith(scores) and name != label for name in headings):
            found_names = listed(_others_first(headings))
            raise ValueError(f"{path} has no column {scores!r}, and none that starts with it; found {found_names}")
        kind = kind or PREFIX_KINDS.get(scores)
        if kind is None:
            raise ValueError(f"{path}: unclear whether columns {scores}… hold logits or probabilities; {SET_KIND}")
        prefixes = [(scores, kind)]
    found = []
    for prefix, of in prefixes:
        names = [(index, name) for index, name in enumerate(headings) if name.startswith(prefix) and name != label]
        if names:
            found.append(_in_class_order(of, [(index, name.removeprefix(prefix)) for index, name in names]))
    if len({of for of, _, _ in found}) > 1:
        raise ValueError(f"{path} has both logit_ and prob_ columns; {SET_KIND}")
    if len(found) > 1:
        raise ValueError(f"{path} has score columns with several prefixes; set --scores PREFIX (scores= in Python)")
    if found:
        return found[0]
    positive = known(headings, PROBS) if kind in (None, "probs") else []
    if len(positive) == 1:
        return "probs", (headings.index(positive[0]),), None
    numbered = [(index, name) for index, name in enumerate(headings) if _is_number(name) and name != label]
    if kind is not None and numbered:
        return _in_class_order(kind, numbered)
    unused = {*NOT_SCORES, *PREDICTED, *CONFIDENCE}
    others = [(i, name) for i, name in enumerate(headings) if name != label and plain(name) not in unused]
    if kind is not None and others:
        return _in_class_order(kind, others)
    expected = f"{kind.removesuffix('s')}_CLASS" if kind else "logit_CLASS or prob_CLASS"
    raise ValueError(
        f"{path} has no columns {expected}, one per class; found {listed(headings)}. If others hold the scores, set "
        "their common prefix: --scores PREFIX --kind logits (or probs). If all columns but the label are classes, set "
        f"--kind alone. {TOP_CLASS}"
    )


def _named_columns(path: Path, headings: Sequence[str], selection: Selection) -> ScoreColumns:
    """Return the columns that the caller lists, separated by commas."""
    assert selection.scores is not None
    names = [selection.scores] if selection.scores in headings else selection.scores.split(",")
    missing = [name for name in names if name not in headings]
    if missing:
        raise ValueError(f"{path} has no columns {listed(missing)}; found {listed(headings)}")
    kind = selection.kind or next((of for prefix, of in PREFIX_KINDS.items() if names[0].startswith(prefix)), None)
    kind = kind or (ARRAY_KINDS.get(plain(names[0])) if len(names) == 1 else None)
    if kind is None:
        raise ValueError(f"{path}: unclear whether {selection.scores} hold logits or probabilities; {SET_KIND}")
    classes = [name.removeprefix(_prefix(name)) for name in names]
    return kind, tuple(map(headings.index, names)), tuple(classes) if len(names) > 1 or _prefix(names[0]) else None


def check_unique(path: Path, names: Sequence[str], what: str = "column") -> None:
    """Check that the names of columns or classes are unique."""
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise ValueError(f"{path} has more than one {what} named {listed(duplicates)}")


def _prefix(name: str) -> str:
    return next((prefix for prefix in PREFIX_KINDS if name.startswith(prefix)), "")


def _others_first(names: Sequence[str]) -> list[str]:
    """Return the names with those of score columns at the end: there may be thousands of these."""
    return sorted(names, key=lambda name: bool(_prefix(name)) or _is_number(name))


def _is_number(text: str) -> bool:
    """Whether the text is a class number: no leading zeros, sign or spaces."""
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")


def _in_class_order(kind: Kind, columns: list[tuple[int, str]]) -> ScoreColumns:
    """Order columns as in the file, or by number if all are numbered: a tool may have sorted 10 before 2."""
    if all(_is_number(name) for _, name in columns):
        columns.sort(key=lambda column: int(column[1]))
    indices, names = zip(*columns, strict=True)
    return kind, indices, names
