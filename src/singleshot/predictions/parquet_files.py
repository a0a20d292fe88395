"""Predictions in .parquet files, read with pyarrow (the extra singleshot[parquet])."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from singleshot.common.text import printable
from singleshot.predictions.arrays import BLOCK_BYTES, MAX_LABEL_LENGTH
from singleshot.predictions.file import Block, Predictions
from singleshot.predictions.names import ARRAY_KINDS, Kind, plain
from singleshot.predictions.selection import Layout, Selection, check_unique, find_array, find_columns, find_labels

Opened = Callable[[Path], AbstractContextManager[Any]]

MAX_ROW_BYTES = 2**26


def open_parquet(path: Path, selection: Selection) -> Predictions:
    """Open columns logit_CLASS or prob_CLASS, and label; or a list column ``logits`` or ``probs``."""
    return _open(path, selection, _opened)


def open_feather(path: Path, selection: Selection) -> Predictions:
    """Open a file in the format of pandas' ``to_feather``, with the columns of a .parquet file."""
    return _open(path, selection, _opened_feather)


def _open(path: Path, selection: Selection, opened: Opened) -> Predictions:
    with opened(path) as file:
        schema = file.schema_arrow
        check_unique(path, schema.names)
        if opened is _opened:
            _check_row_sizes(path, file)
        count = file.metadata.num_rows
        lists = _find_lists(path, schema, selection)
        if lists is not None:
            name, kind = lists
            layout = Layout(kind, (), None, schema.names.index(find_labels(path, schema.names, selection)))
            columns = [name]
            classes = _list_length(path, file, name) if count else 1
        else:
            layout = find_columns(path, schema.names, selection)
            columns = [schema.names[index] for index in layout.columns]
            classes = len(columns)
    label = schema.names[layout.labels]
    predicted = [] if layout.predicted is None else [schema.names[layout.predicted]]
    has_names = any(not _is_integer(schema.field(one).type) for one in (label, *predicted))

    def read_blocks(rows: int) -> Iterator[Block]:
        first = 0
        if has_names:  # a dictionary of one long label takes little space in the file
            rows = min(rows, BLOCK_BYTES // MAX_LABEL_LENGTH)
        with opened(path) as file:
            for batch in file.iter_batches(batch_size=rows, columns=[*columns, label, *predicted], use_threads=False):
                if lists is not None:
                    scores = _from_lists(path, batch.column(name), classes, first)
                else:
                    scores = np.stack([_numbers(path, one, batch.column(one)) for one in columns], axis=1)
                if len(scores):
                    labels, *other = (_labels(path, one, batch.column(one), first) for one in (label, *predicted))
                    yield Block(scores, labels, predicted=other[0] if other else None)
                first += len(scores)
        if first != count:
            raise ValueError(f"{path} is damaged: it holds {first:,} rows, but its footer says {count:,}")

    return Predictions(
        path,
        layout.kind,
        classes,
        count,
        layout.class_names,
        read_blocks,
        is_unclear=layout.is_unclear,
        are_assumed=layout.are_assumed,
    )


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise ValueError(f"{path}: reading .parquet needs pyarrow: pip install 'singleshot[parquet]'") from None
    try:
        with pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # a disk error
        raise ValueError(f"{path} is damaged or not a parquet file: {printable(str(error))}") from None


class _Feather(NamedTuple):
    """A feather file with the methods of a parquet file that are used here."""

    reader: Any
    schema_arrow: Any

    @property
    def metadata(self) -> Any:
        return self

    @property
    def num_rows(self) -> int:
        return sum(self.reader.get_batch(index).num_rows for index in range(self.reader.num_record_batches))

    def iter_batches(self, batch_size: int, columns: list[str], *, use_threads: bool = False) -> Iterator[Any]:
        del use_threads
        for index in range(self.reader.num_record_batches):
            batch = self.reader.get_batch(index).select(columns)
            for first in range(0, batch.num_rows, batch_size):
                yield batch.slice(first, batch_size)


@contextmanager
def _opened_feather(path: Path) -> Iterator[Any]:
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError:
        raise ValueError(f"{path}: reading .feather needs pyarrow: pip install 'singleshot[parquet]'") from None
    try:
        with pyarrow.memory_map(str(path)) as source, pyarrow.ipc.open_file(source) as reader:
            yield _Feather(reader, reader.schema)
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # a disk error
        raise ValueError(f"{path} is damaged or not a feather file: {printable(str(error))}") from None


def _find_lists(path: Path, schema: Any, selection: Selection) -> tuple[str, Kind] | None:
    """Return the list column that holds the scores, and their kind; None if they are in a column per class."""
    from pyarrow import types

    is_list = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    lists = [column.name for column in schema if any(check(column.type) for check in is_list)]
    kinds = {name: ARRAY_KINDS[plain(name)] for name in lists if plain(name) in ARRAY_KINDS}
    known = [name for name, kind in kinds.items() if selection.kind in (None, kind)]
    if selection.scores in lists or (selection.scores is None and known):
        return find_array(path, lists, selection)
    return None


def _check_row_sizes(path: Path, file: Any) -> None:
    """Refuse rows that expand to many megabytes.

    The sizes of single columns are not looked at: pyarrow ends the process if that part of the footer is damaged.
    """
    for group in map(file.metadata.row_group, range(file.metadata.num_row_groups)):
        if group.total_byte_size > MAX_ROW_BYTES * max(1, group.num_rows):
            raise ValueError(
                f"{path} has {group.total_byte_size:,} bytes in {group.num_rows:,} rows; at most {MAX_ROW_BYTES:,} "
                "bytes per row are supported"
            )


def _list_length(path: Path, file: Any, name: str) -> int:
    """Return the number of scores in the first row; every other row must have as many."""
    from pyarrow import compute

    batches = file.iter_batches(batch_size=1, columns=[name], use_threads=False)
    lengths = (compute.list_value_length(batch.column(0))[0].as_py() for batch in batches if len(batch))
    first: int | None = next(lengths, None)
    if not first:
        raise ValueError(f"{path}: row 0 of column {name!r} is empty")
    return first


def _from_lists(path: Path, column: Any, classes: int, first: int) -> NDArray[Any]:
    from pyarrow import compute

    lengths = compute.fill_null(compute.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    wrong = lengths != classes
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{path}: row {first + row} (counted from 0) has {int(lengths[row])} scores, row 0 has {classes}"
        )
    return _numbers(path, "scores", column.flatten()).reshape(len(column), classes)


def _numbers(path: Path, name: str, column: Any) -> NDArray[Any]:
    """Convert a column to numbers. Missing values become NaN, which is refused later."""
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (types.is_floating(column.type) or types.is_integer(column.type) or types.is_decimal(column.type)):
        raise ValueError(f"{path}: column {name!r} must hold numbers, got {printable(str(column.type))}")
    if not types.is_floating(column.type):
        column = column.cast(pyarrow.float64(), safe=False)
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _labels(path: Path, name: str, column: Any, first: int) -> NDArray[Any]:
    from pyarrow import compute, types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    found = column.type
    is_text = types.is_string(found) or types.is_large_string(found)
    if not (types.is_integer(found) or is_text or types.is_floating(found) or types.is_boolean(found)):
        raise ValueError(f"{path}: column {name!r} must hold integers or class names, got {printable(str(found))}")
    if is_text and (length := compute.max(compute.binary_length(column)).as_py() or 0) > MAX_LABEL_LENGTH:
        raise ValueError(f"{path}: column {name!r} has a label of {length:,} bytes, more than {MAX_LABEL_LENGTH:,}")
    if column.null_count:
        row = int(column.is_null().to_numpy(zero_copy_only=False).argmax())
        raise ValueError(f"{path}: column {name!r} has no label in row {first + row} (counted from 0)")
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _is_integer(found: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(found.value_type if types.is_dictionary(found) else found))
