"""What the reader of a format hands over: where scores and labels are, and blocks of them as they stand in the file."""

from __future__ import annotations

import csv
import errno
import gzip
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

from singleshot.common.text import printable

Kind = Literal["logits", "probs"]
KINDS: tuple[Kind, ...] = ("logits", "probs")
LabelsAre = Literal["names", "indices"]
MEANINGS: tuple[LabelsAre, ...] = ("names", "indices")

WHOLE = re.compile("[+-]?[0-9]{1,18}")
MOST_CLASSES = 2**22  # a row is held in memory: a header that claims a longer one is refused


class Asked(NamedTuple):
    """What the caller says about a file, beyond the names in it."""

    scores: str | None = None
    kind: Kind | None = None
    labels: str | None = None


class RawBlock(NamedTuple):
    """Rows as they stand in the file, their values not yet looked at."""

    scores: NDArray[Any]  # (n, C); of stochastic passes (T, n, C)
    labels: NDArray[Any]  # (n,): integers, or text
    lines: Sequence[int] | None = None  # of a text file, to name the place of a mistake
    were_bfloat16: bool = False  # the scores, in the file: numpy has no such type, and every value of it is a float32


@dataclass(frozen=True)
class PassesSource:
    """T stochastic passes over the examples of a file: ``read`` gives blocks of (T, n, C) with their labels."""

    what: str  # names the array in errors
    kind: Kind
    count: int  # T
    read: Callable[[int], Iterator[RawBlock]]


@dataclass(frozen=True)
class Source:
    """A file whose outline was read: blocks of at most so many rows come from ``read``, as often as it is called."""

    kind: Kind
    classes: int
    count: int | None  # examples; a text file does not know
    class_names: tuple[str, ...] | None
    read: Callable[[int], Iterator[RawBlock]]
    labels_are: LabelsAre | None = None  # where the file itself says what a whole number is
    passes: PassesSource | None = None


def check_source(source: Source, path: Path) -> None:
    """Refuse what no rows can mend: no examples, no classes or far too many, names that do not fit."""
    if source.count == 0:
        raise ValueError(f"{path} holds no examples; predictions need at least one row")
    if not 1 <= source.classes <= MOST_CLASSES:
        raise ValueError(f"{path} has {source.classes:,} classes; 1 to {MOST_CLASSES:,} can be read")
    names = source.class_names
    if names is None:
        return
    if len(names) != source.classes:
        raise ValueError(f"{path} has {len(names)} class names for scores of {source.classes} classes")
    if len(set(names)) < len(names):
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        raise ValueError(f"{path} has classes of the same name: {listed(twice)}; each must have its own")


def listed(names: Sequence[str], most: int = 10) -> str:
    """The first few names, and how many more there are.

    >>> listed(["logits", "y"]), listed([]), listed("abc", most=2)
    ('logits, y', 'nothing', 'a, b and 1 more')
    """
    if not names:
        return "nothing"
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(printable(name) for name in names[:most]) + more


def number_in(text: str) -> int | None:
    """The whole number that a text is.

    >>> number_in("07"), number_in("-1"), number_in("seven")
    (7, -1, None)
    """
    return int(text) if WHOLE.fullmatch(text) else None


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Says which file it is that cannot be made sense of; a disk that fails stays an OSError."""
    damage = (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError, csv.Error, UnicodeDecodeError)
    try:
        yield
    except damage as error:
        raise ValueError(
            f"{path} is damaged or incomplete, or not what its name says: {printable(str(error))}"
        ) from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # a seek to before the start, at the word of a damaged archive
            raise
        raise ValueError(f"{path} is damaged: it points outside itself") from None
    except RuntimeError as error:  # an encrypted archive, or a method zipfile does not know
        raise ValueError(f"{path} cannot be unpacked: {printable(str(error))}") from None
