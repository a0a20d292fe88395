"""Find the arrays or columns that hold scores and labels, by their names or those that the caller gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from singleshot.common.text import listed

Kind = Literal["logits", "probs"]
KINDS: tuple[Kind, ...] = ("logits", "probs")

ARRAY_KINDS: dict[str, Kind] = {"logits": "logits", "probs": "probs", "probabilities": "probs"}
PREFIX_KINDS: dict[str, Kind] = {"logit_": "logits", "prob_": "probs"}
PASS_KINDS: dict[str, Kind] = {"pass_logits": "logits", "pass_probs": "probs"}
LABEL_COLUMNS = ("label", "labels")
SET_KIND = "set --kind logits or --kind probs (kind= in Python)"
SET_LABELS = "set --labels NAME (labels= in Python)"


class Selection(NamedTuple):
    """The names and the kind that the caller specifies."""

    scores: str | None = None
    kind: Kind | None = None
    labels: str | None = None


Columns = tuple[Kind, tuple[int, ...], tuple[str, ...]]
"""The kind of the scores, and the index and class name of each score column, in class order."""


def find_array(path: Path, names: Sequence[str], selection: Selection) -> tuple[str, Kind]:
    """Return the name and kind of the array, tensor or list column that holds the scores."""
    scores, kind, _ = selection
    if scores is not None:
        if scores not in names:
            raise ValueError(f"{path} has no {scores!r}; found {listed(names)}")
        known = kind or ARRAY_KINDS.get(scores)
        if known is None:
            raise ValueError(f"{path}: unclear whether {scores!r} holds logits or probabilities; {SET_KIND}")
        return scores, known
    found = [name for name in names if name in ARRAY_KINDS and kind in (None, ARRAY_KINDS[name])]
    if not found:
        expected = f"{kind!r}" if kind else "'logits' or 'probs'"
        raise ValueError(
            f"{path} has no {expected}; found {listed(names)}. If one of these holds the scores, "
            "set --scores NAME --kind logits (or probs)"
        )
    if len(found) > 1:
        is_clear = len({ARRAY_KINDS[name] for name in found}) == 1
        how = "set --scores NAME (scores= in Python)" if is_clear else SET_KIND
        raise ValueError(f"{path} has {' and '.join(found)}; {how}")
    return found[0], ARRAY_KINDS[found[0]]


def find_labels(path: Path, names: Sequence[str], selection: Selection, defaults: Sequence[str] = ("labels",)) -> str:
    """Return the name of the array or column that holds the labels."""
    candidates = defaults if selection.labels is None else [selection.labels]
    found = [name for name in candidates if name in names]
    if not found:
        raise ValueError(
            f"{path} has no {candidates[0]!r}; found {listed(names)}. If one of these holds the labels, {SET_LABELS}"
        )
    if len(found) > 1:
        raise ValueError(f"{path} has {' and '.join(found)}; {SET_LABELS}")
    return found[0]


def find_passes(path: Path, names: Sequence[str], used: Sequence[str]) -> tuple[str, Kind] | None:
    """Return the name and kind of the array of stochastic passes, if any, unless it is ``used`` otherwise.

    >>> find_passes(Path("a.npz"), ["logits", "labels", "pass_probs"], ("logits", "labels"))
    ('pass_probs', 'probs')
    """
    found = [name for name in PASS_KINDS if name in names and name not in used]
    if len(found) > 1:
        raise ValueError(f"{path} has both {' and '.join(found)}; keep only one of them")
    return (found[0], PASS_KINDS[found[0]]) if found else None


def find_columns(path: Path, headings: Sequence[str], label: str, selection: Selection) -> Columns:
    """Return the score columns: those that start with logit_ or prob_, or with the caller's prefix.

    >>> find_columns(Path("a.csv"), ["prob_cat", "label", "prob_dog"], "label", Selection())
    ('probs', (0, 2), ('cat', 'dog'))
    """
    scores, kind, _ = selection
    prefixes: dict[str, Kind] = {prefix: of for prefix, of in PREFIX_KINDS.items() if kind in (None, of)}
    if scores is not None:
        kind = kind or PREFIX_KINDS.get(scores)
        if kind is None:
            raise ValueError(f"{path}: unclear whether columns {scores}… hold logits or probabilities; {SET_KIND}")
        prefixes = {scores: kind}
    found = []
    for prefix, of in prefixes.items():
        names = [(index, name) for index, name in enumerate(headings) if name.startswith(prefix) and name != label]
        if names:
            found.append(_in_class_order(of, [(index, name.removeprefix(prefix)) for index, name in names]))
    if len(found) > 1:
        raise ValueError(f"{path} has both logit_ and prob_ columns; {SET_KIND}")
    if found:
        return found[0]
    if scores is not None:
        raise ValueError(f"{path} has no columns that start with {scores!r}; found {listed(headings)}")
    numbered = [(index, name) for index, name in enumerate(headings) if _is_number(name)]
    if kind is not None and numbered:
        return _in_class_order(kind, numbered)
    expected = f"{kind.removesuffix('s')}_CLASS" if kind else "logit_CLASS or prob_CLASS"
    raise ValueError(
        f"{path} has no columns {expected}, one per class; found {listed(headings)}. If others hold the scores, set "
        "their common prefix: --scores PREFIX --kind logits (or probs)"
    )


def check_unique(path: Path, names: Sequence[str], what: str = "column") -> None:
    """Check that the names of columns or classes are unique."""
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise ValueError(f"{path} has more than one {what} named {listed(duplicates)}")


def _is_number(text: str) -> bool:
    """Whether the text is a class number: no leading zeros, sign or spaces."""
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")


def _in_class_order(kind: Kind, columns: list[tuple[int, str]]) -> Columns:
    """Order columns as in the file, or by number if all are numbered: a tool may have sorted 10 before 2."""
    if all(_is_number(name) for _, name in columns):
        columns.sort(key=lambda column: int(column[1]))
    indices, names = zip(*columns, strict=True)
    return kind, indices, names
