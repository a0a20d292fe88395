"""Stochastic passes stored with the scores: read in blocks, checked, and not mistaken for the scores."""

from __future__ import annotations

import re
import tracemalloc
import zipfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

import oracle
from predictions.files import predictions
from predictions.test_damaged_files import Bomb
from singleshot.evaluation.evaluation import evaluate_file
from singleshot.predictions import Predictions, read_predictions, write_predictions
from singleshot.predictions.arrays import check_passes_shape

LOGITS, LABELS = predictions(20, 3, "logits")
PASSES = np.random.default_rng(1).normal(size=(4, 20, 3)).astype(np.float32) * 2
PASS_PROBS = oracle.softmax(PASSES.astype(np.float64))
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def stored(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "p.npz", **arrays)
    return folder / "p.npz"


def deflated(folder: Path, **arrays: Any) -> Path:
    np.savez_compressed(folder / "p.npz", **arrays)
    return folder / "p.npz"


def by_columns(folder: Path, **arrays: Any) -> Path:
    return stored(folder, **{name: np.asfortranarray(array) for name, array in arrays.items()})


def safetensors(folder: Path, **arrays: Any) -> Path:
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, folder / "p.safetensors")
    return folder / "p.safetensors"


WRITERS: dict[str, Callable[..., Path]] = {
    "npz": stored,
    "npz deflated": deflated,
    "npz by columns": by_columns,
    "safetensors": safetensors,
}
every_format = pytest.mark.parametrize("write", WRITERS.values(), ids=list(WRITERS))


def changed(passes: NDArray[Any], values: list[float]) -> NDArray[Any]:
    other: NDArray[Any] = passes.copy()
    other[2, 17] = values
    return other


def read_all(found: Predictions, rows: int | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
    batches = list(found.pass_batches(rows))
    assert max(len(batch["labels"]) for batch in batches) <= (rows or 20)
    logits = np.concatenate([batch["logits"] for batch in batches], axis=1)
    return logits, np.concatenate([batch["labels"] for batch in batches])


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(ValueError, match=re.escape(str(path))) as error:
        read_all(read_predictions(path, **options), 6)
    return str(error.value)


@every_format
def test_blocks_are_parts_of_the_whole(write: Callable[..., Path], tmp_path: Path) -> None:
    found = read_predictions(write(tmp_path, logits=LOGITS, labels=LABELS, pass_logits=PASSES))
    assert found.passes == 4
    for rows in (None, 1, 6, 20, 1000):
        logits, labels = read_all(found, rows)
        np.testing.assert_array_equal(logits, PASSES)
        np.testing.assert_array_equal(labels, LABELS)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), name=st.sampled_from(list(WRITERS)), rows=st.integers(1, 10))
def test_finite_passes_are_read_bit_for_bit(
    data: st.DataObject, name: str, rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shape = data.draw(st.tuples(st.integers(2, 5), st.integers(1, 9), st.integers(2, 4)))
    passes = data.draw(hnp.arrays(np.float64, shape, elements=FINITE))
    scores, labels = np.zeros(shape[1:]), np.zeros(shape[1], int)
    path = WRITERS[name](tmp_path_factory.mktemp("any"), logits=scores, labels=labels, pass_logits=passes)
    np.testing.assert_array_equal(read_all(read_predictions(path), rows)[0], passes)


def test_probabilities_are_converted_to_logits(tmp_path: Path) -> None:
    for write, dtype in product(WRITERS.values(), (np.float16, np.float32, np.float64)):
        probs = changed(PASS_PROBS, [0, 1, 0]).astype(dtype)
        found = read_predictions(write(tmp_path, logits=LOGITS, labels=LABELS, pass_probs=probs))
        logits, _ = read_all(found, 6)
        assert np.isfinite(logits).all()
        np.testing.assert_allclose(oracle.softmax(logits.astype(np.float64)), probs, atol=1e-3)
        assert found.kind == "logits"  # of the scores


def test_other_float_types_are_converted(tmp_path: Path) -> None:
    for dtype in (">f4", np.longdouble):
        path = stored(tmp_path, logits=LOGITS, labels=LABELS, pass_logits=PASSES.astype(dtype))
        np.testing.assert_array_equal(read_all(read_predictions(path))[0], PASSES)
    bfloats = torch.from_numpy(PASSES).bfloat16()
    tensors = {"logits": torch.from_numpy(LOGITS), "labels": torch.from_numpy(LABELS), "pass_logits": bfloats}
    save_torch(tensors, tmp_path / "p.safetensors")
    logits, _ = read_all(read_predictions(tmp_path / "p.safetensors"))
    np.testing.assert_array_equal(logits, bfloats.float().numpy())


def bfloat16_file(folder: Path, **arrays: NDArray[Any]) -> Path:
    tensors = {name: torch.from_numpy(array).bfloat16() for name, array in arrays.items()}
    save_torch({"labels": torch.from_numpy(LABELS), **tensors}, folder / "p.safetensors")
    return folder / "p.safetensors"


def test_bfloat16_probabilities_are_checked_to_its_precision(tmp_path: Path) -> None:
    path = bfloat16_file(tmp_path, logits=LOGITS, pass_probs=PASS_PROBS)
    rounded = torch.from_numpy(PASS_PROBS).bfloat16().double().numpy()
    assert np.abs(rounded.sum(2) - 1).max() > 1e-3  # more than the tolerance for float32
    logits, _ = read_all(read_predictions(path), 6)
    np.testing.assert_allclose(np.exp(logits), rounded, rtol=1e-6)
    path = bfloat16_file(tmp_path, logits=LOGITS, pass_probs=changed(PASS_PROBS, [0.5, 0.25, 0.2]))
    assert re.search("pass_probs': .* pass 2, row 17 .* sum 0.95", refusal(path))


@pytest.mark.parametrize("write", [stored, safetensors])
def test_scores_and_metrics_do_not_depend_on_passes(write: Callable[..., Path], tmp_path: Path) -> None:
    plain = read_predictions(write(tmp_path, logits=LOGITS, labels=LABELS))
    before = evaluate_file(plain).metrics()
    assert plain.passes == 0
    with pytest.raises(ValueError, match="has no stochastic passes; store them in an array pass_logits"):
        next(plain.pass_batches())
    for passes in ({"pass_logits": PASSES}, {"pass_probs": PASS_PROBS}):
        found = read_predictions(write(tmp_path, **passes, logits=LOGITS, labels=LABELS))
        assert (found.kind, found.classes, found.count) == ("logits", 3, 20)
        np.testing.assert_array_equal(found.load().scores, LOGITS)
        assert evaluate_file(found).metrics() == before


def test_passes_are_not_scores(tmp_path: Path) -> None:
    alone = stored(tmp_path, labels=LABELS, pass_logits=PASSES)
    assert "has no 'logits' or 'probs'; found labels, pass_logits" in refusal(alone)
    both = stored(tmp_path, logits=LOGITS, labels=LABELS, pass_logits=PASSES)
    assert "must have shape (N, C)" in refusal(both, scores="pass_logits", kind="logits")
    # Scores can have this name if the caller specifies it.
    flat = stored(tmp_path, labels=LABELS, pass_logits=LOGITS)
    named = read_predictions(flat, scores="pass_logits", kind="logits")
    assert named.passes == 0
    np.testing.assert_array_equal(named.load().scores, LOGITS)


@pytest.mark.parametrize(("write", "name"), [(stored, "pass_logits"), (safetensors, "pass_probs")])
def test_other_shapes_are_refused_when_opened(write: Callable[..., Path], name: str, tmp_path: Path) -> None:
    for passes in (
        PASSES[0],
        PASSES[:, None],
        PASSES[:1],
        PASSES[:0],
        PASSES[:, 1:],
        PASSES[..., 1:],
        PASSES.transpose(1, 0, 2),
    ):
        path = write(tmp_path, logits=LOGITS, labels=LABELS, **{name: passes})
        with pytest.raises(ValueError, match="at least 2 passes over the examples and classes") as error:
            read_predictions(path)
        assert str(error.value).startswith(f"{path}: {'array' if write is stored else 'tensor'} {name!r} must have")
        assert "shape (T, 20, 3)" in str(error.value)
        assert str(error.value).endswith(f"got {passes.shape}")
    path = write(tmp_path, logits=LOGITS, labels=LABELS, **{name: PASSES.astype(int)})
    assert re.search(f"{name}' must be floating point, got int64", refusal(path))


@every_format
def test_invalid_values_are_reported_with_pass_and_row(write: Callable[..., Path], tmp_path: Path) -> None:
    place = r"pass 2, row 17 \(counted from 0\)"
    for name, passes, message in [
        ("pass_logits", changed(PASSES, [1, np.nan, 2]), f"logits must be finite .*; {place} has nan for class 1"),
        ("pass_logits", changed(PASSES, [1, 2, np.inf]), f"{place} has inf for class 2"),
        ("pass_probs", changed(PASS_PROBS, [0.5, 0.25, 0.5]), f"{place} has .* sum 1.25; --normalize"),
        ("pass_probs", changed(PASS_PROBS, [1.5, -0.25, -0.25]), f"{place} has values from -0.25 to 1.5 and sum 1;"),
        ("pass_probs", changed(PASS_PROBS, [0.5, np.nan, 0.5]), f"{place} has nan for class 1"),
        ("pass_probs", PASSES, r"probabilities must lie in \[0, 1\] and sum to 1 in each row; pass 0, row 0 "),
    ]:
        path = write(tmp_path, logits=LOGITS, labels=LABELS, **{name: passes})
        assert re.search(f"'{name}': .*{message}", refusal(path)), refusal(path)
        assert len(read_predictions(path).load().labels) == 20  # the scores are valid


def test_logits_and_probabilities_at_once_are_refused(tmp_path: Path) -> None:
    for write in WRITERS.values():
        path = write(tmp_path, logits=LOGITS, labels=LABELS, pass_logits=PASSES, pass_probs=PASS_PROBS)
        assert "has both pass_logits and pass_probs; keep only one" in refusal(path)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    objects = np.full((2, 20, 3), Bomb(), dtype=object)
    for name in ("pass_logits", "pass_probs"):
        path = stored(tmp_path, logits=LOGITS, labels=LABELS, **{name: objects})
        assert f"array '{name}' holds Python objects, which are never unpickled" in refusal(path)


def test_invalid_labels_are_reported(tmp_path: Path) -> None:
    labels = LABELS.copy()
    labels[17] = 3
    path = stored(tmp_path, logits=LOGITS, labels=labels, pass_logits=PASSES)
    assert "lie in [0, 3), the classes of the scores; the label in row 17 (counted from 0) is 3" in refusal(path)


def test_too_many_passes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singleshot.predictions.arrays.MAX_PASS_SCORES", 11)
    path = stored(tmp_path, logits=LOGITS, labels=LABELS, pass_logits=PASSES)
    assert "has 4 passes of 3 classes; at most 11 scores per example" in refusal(path)


def test_scores_of_one_example_are_bounded() -> None:
    check_passes_shape("a", np.dtype(float), (2, 1, 2**22), (1, 2**22))  # the largest number of classes
    with pytest.raises(ValueError, match=r"a has 3 passes of 4,194,304 classes; .* 8,388,608 scores per example"):
        check_passes_shape("a", np.dtype(float), (3, 1, 2**22), (1, 2**22))


@pytest.mark.parametrize("write", [stored, deflated, by_columns])
def test_too_many_bytes_are_refused(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, logits=LOGITS, labels=LABELS, pass_logits=PASSES)
    monkeypatch.setattr("singleshot.predictions.numpy_files.MAX_COPIED", 960)
    assert len(read_all(read_predictions(path))[1]) == 20
    monkeypatch.setattr("singleshot.predictions.numpy_files.MAX_COPIED", 959)
    assert "'pass_logits' has 960 bytes; at most 959 are supported for stochastic passes" in refusal(path)


def test_unsupported_compression_is_refused(tmp_path: Path) -> None:
    whole = {"logits": LOGITS, "labels": LABELS, "class_names": np.array(list("abc")), "pass_logits": PASSES}
    for name, method in product(whole, (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)):
        path = stored(tmp_path, **{other: array for other, array in whole.items() if other != name})
        with zipfile.ZipFile(path, "a", method) as archive, archive.open(f"{name}.npy", "w") as member:
            np.lib.format.write_array(member, whole[name])
        assert f"array '{name}' is compressed with an unsupported method" in refusal(path)


@pytest.mark.parametrize("write", [stored, deflated, by_columns])
def test_memory_use_is_one_block(write: Callable[..., Path], tmp_path: Path) -> None:
    passes = np.zeros((8, 50_000, 10), np.float32)  # 16 MB; deflated, all of it fits into a single read
    path = write(tmp_path, logits=passes[0], labels=np.zeros(50_000, int), pass_logits=passes)
    found = read_predictions(path)
    tracemalloc.start()
    assert sum(len(batch["labels"]) for batch in found.pass_batches(500)) == 50_000
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def test_blocks_are_bounded_in_bytes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singleshot.predictions.arrays.BLOCK_BYTES", 300)
    path = stored(tmp_path, logits=LOGITS, labels=LABELS, pass_logits=PASSES)  # 4 · 3 · 4 + 8 bytes of one example
    assert [len(batch["labels"]) for batch in read_predictions(path).pass_batches()] == [5] * 4


def test_changed_byte_in_any_pass_fails_the_checksum(tmp_path: Path) -> None:
    for write, one_pass in product((stored, deflated), range(4)):
        path = write(tmp_path, logits=LOGITS, labels=LABELS, pass_logits=PASSES)
        data = bytearray(path.read_bytes())
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo("pass_logits.npy")
        # a byte within the values of that pass, after the headers of the archive and of the array
        data[info.header_offset + 250 + one_pass * (info.compress_size - 250) // 4] ^= 1
        path.write_bytes(data)
        assert "is damaged" in refusal(path)


@pytest.mark.parametrize("write", [stored, deflated])
def test_checksum_of_a_long_array_is_verified(write: Callable[..., Path], tmp_path: Path) -> None:
    passes = np.random.default_rng(0).normal(size=(4, 10_000, 10))  # 3 MB, read in several pieces
    path = write(tmp_path, logits=passes[0], labels=np.zeros(10_000, int), pass_logits=passes)
    with zipfile.ZipFile(path) as archive:
        checksum = archive.getinfo("pass_logits.npy").CRC.to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(checksum, bytes(4)))
    assert "Bad CRC-32 for file 'pass_logits.npy'" in refusal(path)


@settings(max_examples=80, deadline=None)
@given(name=st.sampled_from(list(WRITERS)), where=st.floats(0, 1), byte=st.none() | st.integers(0, 255))
def test_truncated_or_damaged_file_is_refused_or_read(
    name: str, where: float, byte: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = WRITERS[name](tmp_path_factory.mktemp("damaged"), logits=LOGITS, labels=LABELS, pass_logits=PASSES)
    data = path.read_bytes()
    place = min(int(where * len(data)), len(data) - 1)
    path.write_bytes(data[:place] if byte is None else data[:place] + bytes([byte]) + data[place + 1 :])
    total, message = 0, ""
    try:
        found = read_predictions(path)
        total = sum(len(batch["labels"]) for batch in found.pass_batches(6)) if found.passes else 20
    except ValueError as error:
        message = str(error)
    assert path.name in message or (byte is not None and total == 20)


def test_passes_are_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    parts = [(LOGITS[:13], LABELS[:13]), (LOGITS[13:], LABELS[13:])]
    for passes in (PASSES, np.asfortranarray(PASSES), PASSES.astype(np.float16)):
        write_predictions(path, parts, pass_logits=passes)
        found = read_predictions(path)
        np.testing.assert_array_equal(read_all(found, 6)[0], passes)
        np.testing.assert_array_equal(found.load().scores, LOGITS)
        with np.load(path, allow_pickle=False) as arrays:
            assert sorted(arrays.files) == ["labels", "logits", "pass_logits"]
            assert arrays["pass_logits"].flags.c_contiguous
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"pass_logits must have shape \(T, 20, 3\): .*, got \(4, 13, 3\)"):
        write_predictions(path, parts, pass_logits=PASSES[:, :13])
    with pytest.raises(ValueError, match="pass_logits must be floating point, got int64"):
        write_predictions(path, parts, pass_logits=PASSES.astype(np.int64))
    assert path.read_bytes() == before
