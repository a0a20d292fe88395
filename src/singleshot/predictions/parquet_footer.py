"""The number of values that the footer of a .parquet file states for each of its columns.

pyarrow has it as well, but ends the process if that part of the footer is damaged. The footer is a structure of
Thrift's compact protocol: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_ROW_GROUPS, _COLUMNS, _META_DATA, _PATH, _NUM_VALUES = 4, 1, 3, 3, 5  # numbers of fields in parquet.thrift
_BOOLS, _INTEGERS, _LISTS, _MAP = (1, 2), (4, 5, 6), (9, 10), 11  # kinds of values; all others are structures
_SIZES = {3: 1, 7: 8, 8: None}  # bytes of a byte, a double and a text, whose length precedes it


def values_in_row_groups(path: Path, column: str) -> list[int]:
    """Return the number of values that each row group has of a column, with those in its lists."""
    with path.open("rb") as file:
        size = path.stat().st_size
        file.seek(size - 8)
        length = int.from_bytes(file.read(4), "little")
        file.seek(size - 8 - length)
        reader = _Reader(file.read(length))
    try:
        groups = [[chunk[_META_DATA] for chunk in group[_COLUMNS]] for group in reader.struct()[_ROW_GROUPS]]
        return [sum(one[_NUM_VALUES] for one in group if one[_PATH][0] == column.encode()) for group in groups]
    except (IndexError, KeyError, TypeError, RecursionError):  # pyarrow skips fields of another type
        raise ValueError(f"{path} is damaged: its footer lacks the sizes of its columns") from None


class _Reader:
    """Reads a structure that pyarrow has read before, as a dict by the numbers of its fields."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while head := self._bytes(1)[0]:
            number = number + (head >> 4) if head >> 4 else self._integer()
            fields[number] = self._value(head & 15, head & 15 == 1)
        return fields

    def _value(self, kind: int, is_true: bool = False) -> Any:
        if kind in _BOOLS:
            return is_true
        if kind in _INTEGERS:
            return self._integer()
        if kind in _SIZES:
            return self._bytes(_SIZES[kind] or self._unsigned())
        if kind in _LISTS:
            head = self._bytes(1)[0]
            return [self._element(head & 15) for _ in range(head >> 4 if head >> 4 < 15 else self._unsigned())]
        if kind == _MAP:
            size = self._unsigned()
            kinds = self._bytes(1)[0] if size else 0
            return [(self._element(kinds >> 4), self._element(kinds & 15)) for _ in range(size)]
        return self.struct()

    def _element(self, kind: int) -> Any:
        return self._bytes(1) if kind in _BOOLS else self._value(kind)  # unlike a field, a byte of its own

    def _bytes(self, count: int) -> bytes:
        found = self.data[self.at : self.at + count]
        if len(found) < count:
            raise IndexError
        self.at += count
        return found

    def _unsigned(self) -> int:
        value = shift = 0
        while (byte := self._bytes(1)[0]) & 128:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def _integer(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)
