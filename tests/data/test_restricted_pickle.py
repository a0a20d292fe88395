"""Pickles that try to run code must be refused before anything runs."""

from __future__ import annotations

import functools
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from singleshot.data.formats.restricted_pickle import read_pickled_dict

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
KEYS = st.text() | st.binary() | st.integers()
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4) | st.tuples(inner, inner),
    max_leaves=15,
)
DTYPES = st.sampled_from(["u1", "i1", "<i2", ">i4", "<i8", "f4", ">f8", "?"])
ARRAYS = DTYPES.flatmap(lambda dtype: arrays(np.dtype(dtype), st.lists(st.integers(0, 4), max_size=3).map(tuple)))
PROTOCOLS = st.integers(2, pickle.HIGHEST_PROTOCOL)


class Call:
    """Pickled as a call of any function."""

    def __init__(self, function: Any, *arguments: Any, state: Any = None) -> None:
        self.reduced = function, arguments, state

    def __reduce__(self) -> Any:
        return self.reduced


def write(folder: Path, content: bytes) -> Path:
    path = folder / "batch"
    path.write_bytes(content)
    return path


@settings(max_examples=40, deadline=None)
@given(PLAIN, PROTOCOLS)
def test_plain_data_is_read(tmp_path_factory: pytest.TempPathFactory, value: object, protocol: int) -> None:
    path = write(tmp_path_factory.mktemp("pickle"), pickle.dumps({"value": value, b"bytes": 1}, protocol))
    assert read_pickled_dict(path) == {"value": value, "bytes": 1}


@settings(max_examples=60, deadline=None)
@given(ARRAYS, st.sampled_from("CF"), PROTOCOLS)
def test_arrays_are_read(
    tmp_path_factory: pytest.TempPathFactory, array: np.ndarray[Any, Any], order: Any, protocol: int
) -> None:
    content = pickle.dumps({"data": np.asarray(array, order=order), "again": array}, protocol)
    found = read_pickled_dict(write(tmp_path_factory.mktemp("pickle"), content))
    for copy in (found["data"], found["again"]):
        assert type(copy) is np.ndarray
        assert copy.shape == array.shape
        assert copy.dtype == array.dtype
        np.testing.assert_array_equal(copy, array)


def short(text: bytes) -> bytes:
    return b"U" + bytes([len(text)]) + text


def test_pickle_of_python_2(tmp_path: Path) -> None:
    """The instructions that Python 2 writes for {'data': array, 'labels': [1, 2]}. Its strings are bytes."""
    dtype = (
        b"cnumpy\ndtype\nq\x05(" + short(b"u1") + b"K\x00K\x01tq\x06R(K\x03" + short(b"|") + b"NNNJ\xff\xff\xff\xff"
        b"J\xff\xff\xff\xffK\x00tb"
    )
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x02(cnumpy\nndarray\nq\x03K\x00\x85" + short(b"b") + b"tq\x04R"
        b"(K\x01K\x02K\x03\x86" + dtype + b"\x89T" + struct.pack("<i", 6) + bytes([0, 1, 2, 253, 254, 255]) + b"tb"
    )
    content = b"\x80\x02}q\x01(" + short(b"data") + array + short(b"labels") + b"](K\x01K\x02eu."
    found = read_pickled_dict(write(tmp_path, content))
    assert found["labels"] == [1, 2]
    np.testing.assert_array_equal(found["data"], np.array([[0, 1, 2], [253, 254, 255]], np.uint8))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_code_is_refused_and_does_not_run(tmp_path: Path, protocol: int) -> None:
    proof = tmp_path / "proof"
    command = f"touch '{proof}'"
    for attack, message in [
        (Call(os.system, command), r"(posix|nt)\.system"),
        (Call(eval, f"__import__('os').system({command!r})"), r"(builtins|__builtin__)\.eval"),
        (Call(exec, f"import os; os.system({command!r})"), r"(builtins|__builtin__)\.exec"),
        (Call(functools.partial(os.system, command)), r"functools\.partial"),
        ([1, {"data": (Call(os.popen, command),)}], r"os\.popen"),
        (Call(np.load, command), "not allowed"),
        (Call(bytearray, 2**40), r"(builtins|__builtin__)\.bytearray"),
        (Path(command), "pathlib"),
        ({1, 2}, "not allowed"),
        (1j, r"(builtins|__builtin__)\.complex"),
        (np.array([command, None], object), "not allowed"),
        (np.float64(1), "not allowed"),
        (np.array([1 + 2j]), "dtype 'c16' are not allowed"),
        (np.zeros(2, [("a", "u1")]), "not allowed"),
        (np.array(["text"]), "not allowed"),
    ]:
        path = write(tmp_path, pickle.dumps({"data": attack}, protocol))
        with pytest.raises(ValueError, match=message) as caught:
            read_pickled_dict(path)
        assert str(path) in str(caught.value)
        assert not proof.exists(), message


ENCODE = b"\x80\x02c_codecs\nencode\n"


def test_malformed_pickles_are_refused(tmp_path: Path) -> None:
    for content, message in [
        (b"\x80\x02cnumpy.core.multiarray\nfromfile\n.", r"numpy\.core\.multiarray\.fromfile"),
        (b"\x80\x04\x8c\x16numpy._core.multiarray\x8c\x0f_reconstruct.x_\x93.", "_reconstruct.x_, which is not"),
        (b"\x80\x02ccopyreg\n_reconstructor\n.", r"copyreg\._reconstructor"),
        (b"\x80\x02c__builtin__\neval\n.", r"(builtins|__builtin__)\.eval"),
        (b"cos\nsystem\n(S'true'\ntR.", "it uses STRING|os.system"),
        (b"(ios\nsystem\n.", "it uses INST, which is not allowed"),
        (b"\x80\x02}\x81.", "it uses NEWOBJ"),
        (b"\x80\x02\x82\x01.", "it uses EXT1"),
        (b"\x80\x02Q.", "it uses BINPERSID"),
        (ENCODE + b"X\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.", "latin1"),
        (b"\x80\x02c__builtin__\nbytes\nJ\xff\xff\xff\x7f\x85R.", "argument"),  # two gigabytes of zeros
        (b"\x80\x02cnumpy\ndtype\n.", "contains a _Function, expected a dict"),
        (b"\x80\x02}cnumpy\ndtype\nK\x01s.", "expected a string, found _Function"),
        (ENCODE + b"}X\x01\x00\x00\x00xK\x01sb.", "it modifies a function"),
        (b"\x80\x02]r\xff\xff\xff\x7f.", "it requests memory for 2147483647 entries"),
        (b"\x80\x02" + b"\x85" * 2 + b".", "stack|unexpected|pop"),
        (b"\x80\x02K\x01" + b"\x85" * 100_000 + b".", "100000 tuples"),
        (b"\x80\x02]q\x00h\x00a.", "contains a list, expected a dict"),  # a list that contains itself
        (b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".", "contains a list, expected a dict"),
        (b"\x80\x02]]s.", "batch"),
        (b"", "batch"),
        (b"no pickle at all", "batch"),
        (b"\x80\x02X\xff\xff\xff\x7fabc", "expected 2147483647 bytes"),
    ]:
        path = write(tmp_path, content)
        with pytest.raises(ValueError, match=message) as caught:
            read_pickled_dict(path)
        assert str(path) in str(caught.value)
        assert "not a pickled dict" in str(caught.value)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_truncated_pickle(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    content = pickle.dumps({b"data": np.arange(12, dtype=np.uint8).reshape(3, 4), b"labels": [1, 2, 3]}, 2)
    cut = data.draw(st.integers(0, len(content) - 1))
    path = write(tmp_path_factory.mktemp("pickle"), content[:cut])
    with pytest.raises(ValueError, match="batch is not a pickled dict"):
        read_pickled_dict(path)


def test_array_must_have_the_bytes_of_its_shape(tmp_path: Path) -> None:
    array = np.zeros(5, np.uint8)
    reduced: Any = array.__reduce__()
    reconstruct, arguments, state = reduced
    for shape in [(-1, 3), (2, 3), (2**62, 2**62), ("a",), [6]]:
        forged = Call(reconstruct, *arguments, state=(state[0], shape, *state[2:]))
        with pytest.raises(ValueError, match=r"an array (cannot have|of) shape"):
            read_pickled_dict(write(tmp_path, pickle.dumps({"data": forged}, 2)))


def test_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(2**30 + 1)  # sparse
    with pytest.raises(ValueError, match=r"huge has 1,073,741,825 bytes"):
        read_pickled_dict(path)
