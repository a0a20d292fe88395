"""Predictions in .npz archives and in pairs of .npy files, read as streams of rows."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from singleshot.predictions.columns import ARRAY_KINDS, ARRAY_LABELS, HOW_TO_SAY, find_array, find_labels
from singleshot.predictions.npy_stream import (
    LONGEST_TEXT,
    ArrayHeader,
    check_labels_header,
    check_lengths,
    check_passes_size,
    check_scores_header,
    read_blocks,
    read_blocks_of_passes,
    read_header,
    streams_of_passes,
)
from singleshot.predictions.source import MEANINGS, Asked, Kind, PassesSource, RawBlock, Source, damage_named
from singleshot.predictions.values import check_passes_shape, find_passes

MOST_NAME_BYTES = 2**28
BLOCK_BYTES = 2**26  # of rows held at a time, however long their labels are
CLASS_NAMES = "class_names"
LABELS_ARE = "labels_are"
MEMBER = ".npy"
PIECEWISE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What numpy writes. Of other methods zipfile unpacks all that it has read at once, and at a tenth of the pace."""


def open_npz(path: Path, asked: Asked) -> Source:
    """An archive with arrays ``logits`` or ``probs`` (N, C), ``labels`` (N,) and, if there are any, ``class_names``.

    Stochastic passes may stand beside them, in ``pass_logits`` or ``pass_probs`` (T, N, C).
    """
    with zipfile.ZipFile(path) as archive:
        there = _members(path, archive)
        scores, kind = find_array(path, there, asked)
        labels = find_labels(path, there, ARRAY_LABELS, asked)
        with _opened(archive, path, scores) as (_, scores_header):
            check_scores_header(scores_header)
        with _opened(archive, path, labels) as (_, labels_header):
            check_labels_header(labels_header)
        check_lengths(scores_header.what, labels_header.what, scores_header.shape[0], labels_header.shape[0])
        classes = scores_header.shape[1]
        names = _texts(archive, path, CLASS_NAMES, classes) if CLASS_NAMES in there else None
        said = _texts(archive, path, LABELS_ARE) if LABELS_ARE in there else ()
        labels_are = next((meaning for meaning in MEANINGS if said == (meaning,)), None)
        passes = _passes(archive, path, there, (scores, labels), scores_header.shape)

    def read(rows: int) -> Iterator[RawBlock]:
        with damage_named(path), zipfile.ZipFile(path) as again:  # noqa: SIM117
            with _opened(again, path, scores) as one, _opened(again, path, labels) as other:
                yield from _pairs(one, other, rows)

    return Source(kind, classes, scores_header.shape[0], names, read, labels_are, passes)


def open_npy(path: Path, asked: Asked) -> Source:
    """Scores (N, C) in one .npy file, labels (N,) in another; the name of the first, or the caller, says the kind."""
    if asked.scores is not None:
        raise ValueError(f"{path} holds one array without a name; leave out --scores {asked.scores}")
    kind = asked.kind or _kind_by_name(path)
    if asked.labels is None:
        raise ValueError(f"{path} holds scores only; name the file of their labels: --labels labels.npy (labels=)")
    other = Path(asked.labels)
    if other.suffix.lower() != MEMBER or not other.is_file():
        raise ValueError(f"--labels {other} must be an .npy file that is there, with a label for each row of {path}")
    with _file(path) as (_, scores_header), _file(other) as (_, labels_header):
        check_scores_header(scores_header)
        check_labels_header(labels_header)
        check_lengths(str(path), str(other), scores_header.shape[0], labels_header.shape[0])

    def read(rows: int) -> Iterator[RawBlock]:
        with _file(path) as one, _file(other) as two:
            yield from _pairs(one, two, rows)

    count, classes = scores_header.shape
    return Source(kind, classes, count, None, read)


def _passes(
    archive: zipfile.ZipFile, path: Path, there: list[str], taken: tuple[str, str], shape: tuple[int, ...]
) -> PassesSource | None:
    found = find_passes(path, there, taken)
    if found is None:
        return None
    name, kind = found
    _, labels = taken
    with _opened(archive, path, name) as (_, header):
        check_passes_shape(header.what, str(header.dtype), header.dtype.kind == "f", header.shape, shape)
        check_passes_size(header)

    def read(rows: int) -> Iterator[RawBlock]:
        with damage_named(path), zipfile.ZipFile(path) as again, ExitStack() as stack:
            count = streams_of_passes(header)
            streams = [stack.enter_context(_opened(again, path, name))[0] for _ in range(count)]
            file, labels_header = stack.enter_context(_opened(again, path, labels))
            rows = _bearable(rows, header.shape[0] * header.shape[2] * header.dtype.itemsize + labels_header.row_bytes)
            both = zip(
                read_blocks_of_passes(streams, header, rows), read_blocks(file, labels_header, rows), strict=True
            )
            for some_passes, some_labels in both:
                yield RawBlock(some_passes, some_labels)

    return PassesSource(header.what, kind, header.shape[0], read)


def _pairs(
    scores: tuple[IO[bytes], ArrayHeader], labels: tuple[IO[bytes], ArrayHeader], rows: int
) -> Iterator[RawBlock]:
    rows = _bearable(rows, scores[1].row_bytes + labels[1].row_bytes)
    both = zip(read_blocks(*scores, rows), read_blocks(*labels, rows), strict=True)
    for some_scores, some_labels in both:
        yield RawBlock(some_scores, some_labels)


def _bearable(rows: int, row_bytes: int) -> int:
    return min(rows, max(1, BLOCK_BYTES // max(1, row_bytes)))


def _members(path: Path, archive: zipfile.ZipFile) -> list[str]:
    names = archive.namelist()
    if len(set(names)) < len(names):
        raise ValueError(f"{path} holds two arrays of the same name; save it anew")
    return [name.removesuffix(MEMBER) for name in names if name.endswith(MEMBER)]


@contextmanager
def _opened(archive: zipfile.ZipFile, path: Path, name: str) -> Iterator[tuple[IO[bytes], ArrayHeader]]:
    info = archive.getinfo(name + MEMBER)
    if info.compress_type not in PIECEWISE:
        raise ValueError(
            f"{path}: array {name!r} is packed by another method than deflate; numpy.savez_compressed packs it so that "
            "it can be read a piece at a time"
        )
    with archive.open(info) as file:
        yield file, read_header(file, info.file_size, f"{path}: array {name!r}")


@contextmanager
def _file(path: Path) -> Iterator[tuple[IO[bytes], ArrayHeader]]:
    with path.open("rb") as file:
        yield file, read_header(file, path.stat().st_size, str(path))


def _texts(archive: zipfile.ZipFile, path: Path, name: str, count: int | None = None) -> tuple[str, ...]:
    """Texts, so many where that is known; what the header says is checked before anything is unpacked."""
    with _opened(archive, path, name) as (file, header):
        if len(header.shape) != 1 or header.dtype.kind not in "USiu":
            raise ValueError(f"{header.what} must be a list of names, got {header.dtype} of shape {header.shape}")
        if count is not None and header.shape[0] != count:
            named = name.replace("_", " ")
            raise ValueError(f"{path} has {header.shape[0]} {named} for scores of {count} classes")
        if header.dtype.itemsize > LONGEST_TEXT:
            raise ValueError(
                f"{header.what} has names of {header.dtype.itemsize:,} bytes each; {LONGEST_TEXT:,} at most"
            )
        if header.shape[0] * header.row_bytes > MOST_NAME_BYTES:
            raise ValueError(f"{header.what} is too large: {header.shape[0] * header.row_bytes:,} bytes of names")
        names: NDArray[Any] = np.concatenate([np.empty(0, header.dtype), *read_blocks(file, header, 2**16)])
        if header.dtype.kind == "S":
            names = np.char.decode(names, "utf-8")
        return tuple(str(name) for name in names.tolist())


def _kind_by_name(path: Path) -> Kind:
    kinds = {kind for word, kind in ARRAY_KINDS.items() if word in path.stem.lower()}
    if len(kinds) != 1:
        raise ValueError(f"{path}: its name does not tell logits from probabilities; {HOW_TO_SAY}")
    return kinds.pop()
