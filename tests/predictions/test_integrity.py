"""What the header of a file promises is what the file holds: damage is refused, not read as other numbers."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st
from pyarrow import feather
from safetensors.numpy import save_file

from predictions.files import WRITERS, predictions, refusal
from singleshot.predictions import read_predictions

LOGITS, LABELS = predictions(50, 25, "logits")


@pytest.mark.parametrize("name", ["npz", "npz deflated"])
def test_a_narrower_header_in_an_archive_is_refused(tmp_path: Path, name: str) -> None:
    """(50, 25) read as (50, 24) shifts every row: the numbers are wrong, and none of them looks wrong."""
    path, _ = WRITERS[name](tmp_path, LOGITS, LABELS, "logits")
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    members["logits.npy"] = members["logits.npy"].replace(b"(50, 25)", b"(50, 24)")
    with zipfile.ZipFile(path, "w") as archive:  # with a matching checksum
        for member, content in members.items():
            archive.writestr(member, content)
    assert "array 'logits' has 200 surplus bytes: shape (50, 24) needs" in refusal(path)


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(["npz", "npz deflated", "npz by columns"]), bit=st.floats(0, 1, exclude_max=True))
def test_one_flipped_bit_in_an_archive_is_refused_or_changes_nothing(
    name: str, bit: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, _ = WRITERS[name](tmp_path_factory.mktemp("flipped"), LOGITS, LABELS, "logits")
    data = bytearray(path.read_bytes())
    place = int(bit * 8 * len(data))
    data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)
    try:
        found = read_predictions(path).load()
    except ValueError as error:
        assert path.name in str(error)  # noqa: PT017
    else:
        assert np.array_equal(found.scores, LOGITS)
        assert np.array_equal(found.labels, LABELS)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_checksum_of_the_last_rows_is_compared(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", method, compresslevel=0) as archive:  # the values can be found
        for name, array in (("logits", LOGITS), ("labels", LABELS)):
            with archive.open(f"{name}.npy", "w") as file:
                np.save(file, array)
    data = (tmp_path / "a.npz").read_bytes()
    last = data.index(LOGITS[-1].tobytes()) + 4 * 24  # the last value: no further read follows it
    (tmp_path / "a.npz").write_bytes(data[:last] + b"\x00\x00\x00\x40" + data[last + 4 :])
    assert "Bad CRC-32" in refusal(tmp_path / "a.npz")


@pytest.mark.parametrize("name", [b"klass_names.npy", b"class_names.npx"])
def test_an_array_renamed_by_damage_is_not_overlooked(tmp_path: Path, name: bytes) -> None:
    np.savez(tmp_path / "a.npz", logits=LOGITS, labels=LABELS, class_names=[f"c{index}" for index in range(25)])
    data = (tmp_path / "a.npz").read_bytes()
    directory = data.rindex(b"class_names.npy")
    (tmp_path / "a.npz").write_bytes(data[:directory] + name + data[directory + 15 :])
    assert "differ" in refusal(tmp_path / "a.npz")


def test_surplus_bytes_of_an_npy_file_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", LABELS)
    np.save(tmp_path / "logits.npy", LOGITS)
    options = {"labels": str(tmp_path / "y.npy")}
    with (tmp_path / "logits.npy").open("ab") as file:
        np.save(file, LOGITS)
    assert "surplus bytes" in refusal(tmp_path / "logits.npy", **options)
    np.save(tmp_path / "logits.npy", LOGITS)
    data = (tmp_path / "logits.npy").read_bytes()
    (tmp_path / "logits.npy").write_bytes(data.replace(b"(50, 25)", b"(50, 24)"))
    assert "has 200 surplus bytes" in refusal(tmp_path / "logits.npy", **options)
    np.save(tmp_path / "logits.npy", LOGITS)
    with (tmp_path / "y.npy").open("ab") as file:
        file.write(b"\x00")
    assert "y.npy has 1 surplus bytes" in refusal(tmp_path / "logits.npy", **options)


def test_an_archive_of_thousands_of_files_is_refused_before_its_directory_is_read(tmp_path: Path) -> None:
    empty = io.BytesIO()
    np.save(empty, np.zeros(0))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in range(2500):
            archive.writestr(f"{name}.npy", empty.getvalue())
    assert "holds thousands of files" in refusal(tmp_path / "a.npz")


def test_a_changed_shape_or_surplus_bytes_of_safetensors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"logits": LOGITS, "labels": LABELS}, path)
    data = path.read_bytes()
    for damaged in (data.replace(b"[50,25]", b"[50,24]"), data + b"\x00", data[:-1]):
        assert damaged != data
        path.write_bytes(damaged)
        assert "damaged" in refusal(path)


def table(rows: int = 40) -> pa.Table:
    columns = {f"logit_{index}": column for index, column in enumerate(np.ascontiguousarray(LOGITS[:rows, :3].T))}
    return pa.table({**columns, "label": LABELS[:rows] % 3})


def test_a_flipped_bit_in_a_parquet_page_with_a_checksum_never_changes_a_value(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table(), path, write_page_checksum=True, use_dictionary=False)
    data, refused = path.read_bytes(), 0
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for place in range(4, footer, 3):
        path.write_bytes(data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :])
        try:
            found = read_predictions(path).load()
        except ValueError as error:
            assert path.name in str(error)  # noqa: PT017
            refused += 1
        else:
            assert np.array_equal(found.scores, LOGITS[:40, :3])
            assert np.array_equal(found.labels, LABELS[:40] % 3)
    assert refused > 100


def test_fewer_rows_than_the_footer_of_a_parquet_file_says_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table(), path, row_group_size=20)
    iterate = pq.ParquetFile.iter_batches

    def without_the_last(self: pq.ParquetFile, **options: object) -> object:
        return list(iterate(self, **options))[:-1]

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", without_the_last)
    assert "it holds 36 rows, but its footer says 40" in refusal(path)


def test_parquet_decimals_and_dictionaries_are_read_exactly(tmp_path: Path) -> None:
    texts = ["0.1000", "0.2500", "0.6500"]
    decimals = pa.array([Decimal(text) for text in texts], pa.decimal128(10, 4))
    others = pa.array([1 - float(text) for text in texts]).dictionary_encode()
    labels = pa.array(["a", "b", "a"]).dictionary_encode()
    columns = pa.table({"prob_a": decimals, "prob_b": others, "label": labels})
    pq.write_table(columns, tmp_path / "a.parquet")
    feather.write_feather(columns, tmp_path / "a.feather")  # in which dictionaries of numbers stay dictionaries
    expected = np.array([float(text) for text in texts])
    for name in ("a.parquet", "a.feather"):
        found = read_predictions(tmp_path / name).load()
        assert np.allclose(found.scores, np.stack([expected, 1 - expected], axis=1), rtol=1e-15, atol=0)
        assert found.labels.tolist() == [0, 1, 0]
    wide = pa.array([Decimal("1e30"), Decimal(0)], pa.decimal256(60, 2))
    pq.write_table(pa.table({"logit_a": wide, "logit_b": [0.0, 1.0], "label": [0, 1]}), tmp_path / "a.parquet")
    assert read_predictions(tmp_path / "a.parquet").load().scores.tolist() == [[1e30, 0.0], [0.0, 1.0]]


def test_parquet_rows_that_expand_are_refused_before_they_do(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"logit_a": [0.0], "label": ["x" * 2**27]}), path, compression="zstd")
    assert path.stat().st_size < 2**14
    pa.default_memory_pool().release_unused()
    tracemalloc.start()
    assert "67,108,864 bytes per row are supported" in refusal(path)
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def test_long_parquet_rows_are_not_converted_to_python_objects(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    lists = pa.array([np.zeros(2**23, np.float32)], pa.list_(pa.float32()))
    for columns, message in (
        ({"logits": lists, "label": [0]}, "has 8,388,608 classes"),
        ({"logit_a": [0.0] * 4, "label": ["x" * 2**20] * 3 + ["a"]}, "has a label of 1,048,576 bytes"),
    ):
        pq.write_table(pa.table(columns), path, compression="zstd")
        tracemalloc.start()
        assert message in refusal(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
        tracemalloc.stop()


def test_parquet_lists_of_different_lengths_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    lists = pa.ListArray.from_arrays([0, 2, 5_000_003], pa.array(np.zeros(5_000_003, np.float32)))
    for scores, message in ((lists, "has 5000001 scores, row 0 has 2"), (lists[1:], "has 5,000,001 classes")):
        pq.write_table(pa.table({"logits": scores, "label": [0] * len(scores)}), path, compression="zstd")
        assert path.stat().st_size < 2**10
        assert message in refusal(path)


def test_a_flipped_bit_in_the_footer_of_parquet_lists_is_refused_by_name_or_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"logits": [[0.0, 1.0], [1.0, 0.0]], "label": [0, 1]}), path)
    data, refused = path.read_bytes(), 0
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for place in range(8 * footer, 8 * (len(data) - 8), 3):
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            read_predictions(path).load()
        except ValueError as error:
            assert path.name in str(error)  # noqa: PT017
            refused += 1
    assert refused > 100


def test_a_long_label_in_a_parquet_dictionary_is_decoded_a_few_rows_at_a_time(tmp_path: Path) -> None:
    rows = 50_000
    labels = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int8), pa.array(["x" * 4000]))
    zeros = pa.array(np.zeros(rows, np.float32))
    pq.write_table(pa.table({"logit_a": zeros, "logit_b": zeros, "label": labels}), tmp_path / "a.parquet")
    tracemalloc.start()
    message = refusal_at_once(tmp_path / "a.parquet")
    assert tracemalloc.get_traced_memory()[1] < 2**28
    tracemalloc.stop()
    assert "unknown label" in message
    assert len(message) < 1000


def refusal_at_once(path: Path) -> str:
    with pytest.raises(ValueError, match="unknown label") as error:
        read_predictions(path).load()
    return str(error.value)
