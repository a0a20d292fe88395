"""Which array or columns hold the scores, and what they are: said by their names or by the caller, never guessed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from singleshot.common.checks import check_choice
from singleshot.predictions.source import KINDS, Asked, Kind, listed

ARRAY_KINDS: dict[str, Kind] = {"logits": "logits", "probs": "probs", "probabilities": "probs"}
PREFIX_KINDS: dict[str, Kind] = {"logit_": "logits", "prob_": "probs"}
ARRAY_LABELS = ("labels",)
COLUMN_LABELS = ("label", "labels")
HOW_TO_SAY = "say which with --kind logits or --kind probs (kind= in Python)"


class Columns(NamedTuple):
    """Score columns, by their place in the file, in the order of the classes."""

    kind: Kind
    places: tuple[int, ...]
    class_names: tuple[str, ...]


def check_kind(kind: str | None) -> None:
    """Refuse a kind that is none."""
    if kind is not None:
        check_choice("kind", kind, KINDS)


def find_array(path: Path, there: Sequence[str], asked: Asked, *, what: str = "array") -> tuple[str, Kind]:
    """The name of the array, tensor or list column that holds the scores, and their kind."""
    scores, kind, _ = asked
    if scores is not None:
        if scores not in there:
            raise ValueError(f"{path} has no {what} {scores!r}; there is {listed(there)}")
        said = kind or ARRAY_KINDS.get(scores)
        if said is None:
            raise ValueError(f"{path}: the name {scores!r} does not tell logits from probabilities; {HOW_TO_SAY}")
        return scores, said
    found = [name for name in there if name in ARRAY_KINDS and kind in (None, ARRAY_KINDS[name])]
    if not found:
        wanted = f"{kind!r}" if kind else "'logits' or 'probs'"
        raise ValueError(
            f"{path} has no {what} {wanted}; there is {listed(there)}. If one of these holds the scores, name it with "
            "--scores NAME --kind logits (or probs)"
        )
    if len({ARRAY_KINDS[name] for name in found}) > 1:
        raise ValueError(f"{path} has {' and '.join(found)}; {HOW_TO_SAY}")
    if len(found) > 1:
        raise ValueError(f"{path} has {' and '.join(found)}; say which with --scores NAME (scores= in Python)")
    return found[0], ARRAY_KINDS[found[0]]


def find_labels(path: Path, there: Sequence[str], known: tuple[str, ...], asked: Asked, *, what: str = "array") -> str:
    """The name of the array or column that holds the labels."""
    if asked.labels is not None:
        known = (asked.labels,)
    found = [name for name in known if name in there]
    if not found:
        raise ValueError(
            f"{path} has no {what} {known[0]!r}; there is {listed(there)}. If one of these holds the labels, name it "
            "with --labels NAME (labels= in Python)"
        )
    if len(found) > 1:
        raise ValueError(f"{path} has {' and '.join(found)}; say which with --labels NAME (labels= in Python)")
    return found[0]


def find_columns(path: Path, headings: Sequence[str], label: str, asked: Asked) -> Columns:
    """The score columns: those that begin with logit_ or prob_, or with the prefix that was given.

    >>> find_columns(Path("a.csv"), ["prob_cat", "label", "prob_dog"], "label", Asked())
    Columns(kind='probs', places=(0, 2), class_names=('cat', 'dog'))
    """
    scores, kind, _ = asked
    if scores is not None:
        kind = kind or PREFIX_KINDS.get(scores)
        if kind is None:
            raise ValueError(f"{path}: the prefix {scores!r} does not tell logits from probabilities; {HOW_TO_SAY}")
        columns = _with_prefix(headings, label, scores, kind)
        if not columns.places:
            raise ValueError(f"{path} has no columns that begin with {scores!r}; there is {listed(headings)}")
        return columns
    every = [_with_prefix(headings, label, prefix, which) for prefix, which in PREFIX_KINDS.items()]
    found = [columns for columns in every if columns.places and kind in (None, columns.kind)]
    if len(found) > 1:
        raise ValueError(f"{path} has both logit_ and prob_ columns; {HOW_TO_SAY}")
    if found:
        return found[0]
    if kind is not None:  # headed by the number of the class and nothing else
        numbered = [name for name in headings if is_number(name)]
        if numbered:
            return _in_order(kind, [(headings.index(name), name) for name in numbered])
    wanted = f"{kind.removesuffix('s')}_CLASS" if kind else "logit_CLASS or prob_CLASS"
    raise ValueError(
        f"{path} has no columns {wanted}, one per class; there is {listed(headings)}. If others hold the scores, give "
        "what their names begin with: --scores PREFIX --kind logits (or probs)"
    )


def check_headings(path: Path, headings: Sequence[str]) -> None:
    """Refuse two columns of one name."""
    seen: set[str] = set()
    twice = [name for name in headings if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
    if twice:
        raise ValueError(f"{path} has more than one column named {listed(twice)}; each must have its own name")


def is_number(text: str) -> bool:
    """Whether the text is a whole number as one writes it: without leading zeros, sign or spaces."""
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")


def _with_prefix(headings: Sequence[str], label: str, prefix: str, kind: Kind) -> Columns:
    named = ((place, name) for place, name in enumerate(headings) if name.startswith(prefix) and name != label)
    return _in_order(kind, ((place, name.removeprefix(prefix)) for place, name in named))


def _in_order(kind: Kind, columns: Iterable[tuple[int, str]]) -> Columns:
    """As they stand in the file, or by number where all are numbered: a table tool may have sorted 10 before 2."""
    listed_columns = list(columns)
    if listed_columns and all(is_number(name) for _, name in listed_columns):
        listed_columns.sort(key=lambda column: int(column[1]))
    return Columns(kind, tuple(place for place, _ in listed_columns), tuple(name for _, name in listed_columns))
