"""Predictions in .parquet files, through pyarrow: the extra singleshot[parquet]."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from singleshot.common.text import printable
from singleshot.predictions.columns import (
    ARRAY_KINDS,
    COLUMN_LABELS,
    check_headings,
    find_array,
    find_columns,
    find_labels,
)
from singleshot.predictions.source import Asked, Kind, RawBlock, Source


class _Layout(NamedTuple):
    """Where the scores are: in columns of one class each, or in a single column of lists."""

    kind: Kind
    columns: tuple[str, ...]
    class_names: tuple[str, ...] | None
    is_list: bool


def open_parquet(path: Path, asked: Asked) -> Source:
    """Columns logit_CLASS or prob_CLASS and label, as in a .csv file; or a column ``logits`` or ``probs`` of lists."""
    with _opened(path) as file:
        schema = file.schema_arrow
        check_headings(path, schema.names)
        label = find_labels(path, schema.names, COLUMN_LABELS, asked, what="column")
        _check_label_type(path, schema.field(label))
        layout = _layout(path, schema, label, asked)
        count = file.metadata.num_rows
        classes = len(layout.columns)
        if layout.is_list:
            classes = _list_length(path, file, layout.columns[0]) if count else 1

    def read(rows: int) -> Iterator[RawBlock]:
        first = 0
        with _opened(path) as again:
            for batch in again.iter_batches(batch_size=rows, columns=[*layout.columns, label], use_threads=False):
                if layout.is_list:
                    scores = _from_lists(path, batch.column(layout.columns[0]), classes, first)
                else:
                    parts = [_values(path, name, batch.column(name)) for name in layout.columns]
                    scores = np.stack(parts, axis=1)
                if len(scores):
                    yield RawBlock(scores, _labels(path, label, batch.column(label), first))
                first += len(scores)

    return Source(layout.kind, classes, count, layout.class_names, read)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise ValueError(f"{path}: reading .parquet needs pyarrow: pip install 'singleshot[parquet]'") from None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's, not the file's
        raise ValueError(f"{path} is damaged or incomplete, or no parquet file: {printable(str(error))}") from None


def _layout(path: Path, schema: Any, label: str, asked: Asked) -> _Layout:
    from pyarrow import types

    kinds_of_list = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    lists = [column.name for column in schema if any(is_kind(column.type) for is_kind in kinds_of_list)]
    named = [name for name in lists if name in ARRAY_KINDS and asked.kind in (None, ARRAY_KINDS[name])]
    if asked.scores in lists or (asked.scores is None and named):
        one, kind = find_array(path, lists, asked, what="list column")
        return _Layout(kind, (one,), None, is_list=True)
    columns = find_columns(path, schema.names, label, asked)
    names = tuple(schema.names[place] for place in columns.places)
    for name in names:
        found = schema.field(name).type
        if not (types.is_floating(found) or types.is_integer(found) or types.is_decimal(found)):
            raise ValueError(f"{path}: column {name!r} must hold numbers, it holds {printable(str(found))}")
    return _Layout(columns.kind, names, columns.class_names, is_list=False)


def _check_label_type(path: Path, column: Any) -> None:
    from pyarrow import types

    found = column.type.value_type if types.is_dictionary(column.type) else column.type
    if not (types.is_integer(found) or types.is_string(found) or types.is_large_string(found)):
        raise ValueError(
            f"{path}: column {column.name!r} must hold integers or class names, it holds {printable(str(found))}"
        )


def _list_length(path: Path, file: Any, name: str) -> int:
    """How many scores the first row has; every other must have as many."""
    for batch in file.iter_batches(batch_size=1, columns=[name], use_threads=False):
        if len(batch):
            first = batch.column(0)[0].as_py()
            if not first:
                raise ValueError(f"{path}: row 0 of column {name!r} is empty")
            return len(first)
    raise ValueError(f"{path} holds no examples; predictions need at least one row")


def _from_lists(path: Path, column: Any, classes: int, first: int) -> NDArray[Any]:
    from pyarrow import compute

    lengths = compute.fill_null(compute.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    wrong = lengths != classes
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{path}: row {first + row} (counted from 0) has {int(lengths[row])} scores, row 0 has {classes}"
        )
    return _values(path, "scores", column.flatten()).reshape(len(column), classes)


def _values(path: Path, name: str, column: Any) -> NDArray[Any]:
    """Numbers; a missing one is NaN, which is refused with the number of its row."""
    import pyarrow
    from pyarrow import types

    if not types.is_floating(column.type):
        try:
            column = column.cast(pyarrow.float64())
        except pyarrow.ArrowException:
            raise ValueError(
                f"{path}: column {name!r} must hold numbers, it holds {printable(str(column.type))}"
            ) from None
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _labels(path: Path, name: str, column: Any, first: int) -> NDArray[Any]:
    from pyarrow import types

    if column.null_count:
        row = int(column.is_null().to_numpy(zero_copy_only=False).argmax())
        raise ValueError(f"{path}: column {name!r} has no label in row {first + row} (counted from 0)")
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values
