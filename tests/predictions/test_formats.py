"""Every format is read as it was written, whole and in chunks."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

import singleshot as ss
from predictions.files import WRITERS, csv_text, metadata, predictions
from singleshot.evaluation.calibrating import rescale
from singleshot.evaluation.evaluation import evaluate_file
from singleshot.predictions import read_predictions, write_predictions
from singleshot.predictions.validation import fitted_logits


@pytest.mark.parametrize("name", list(WRITERS))
def test_file_is_read_as_written_whole_and_in_chunks(name: str, tmp_path: Path) -> None:
    for kind in ("logits", "probs"):
        scores, labels = predictions(23, 12, kind)
        path, options = WRITERS[name](tmp_path, scores, labels, kind)
        found = read_predictions(path, **options)
        assert (found.kind, found.classes, found.path) == (kind, 12, path)
        for rows in (None, 1, 5, 23, 1000):
            chunks = list(found.chunks(rows))
            assert max(len(chunk.scores) for chunk in chunks) <= (rows or 23)
            np.testing.assert_array_equal(np.concatenate([chunk.scores for chunk in chunks]), scores)
            np.testing.assert_array_equal(np.concatenate([chunk.labels for chunk in chunks]), labels)
            assert all(chunk.labels.dtype == np.int64 for chunk in chunks)
        np.testing.assert_array_equal(found.load().scores, scores)


def test_binary_formats_keep_the_dtype(tmp_path: Path) -> None:
    dtypes: tuple[Any, ...] = (np.float16, np.float32, np.float64)
    for name, dtype in product(("npz", "npy", "safetensors", "parquet", "parquet of lists"), dtypes):
        scores, labels = predictions(9, 4, "logits", dtype)
        path, options = WRITERS[name](tmp_path, scores, labels, "logits")
        chunk = read_predictions(path, **options).load()
        assert chunk.scores.dtype == dtype, name
        np.testing.assert_array_equal(chunk.scores, scores)


def test_long_double_and_bfloat16_are_converted(tmp_path: Path) -> None:
    scores, labels = predictions(9, 4, "logits", np.longdouble)
    np.savez(tmp_path / "a.npz", logits=scores, labels=labels)
    assert read_predictions(tmp_path / "a.npz").load().scores.dtype == np.float64
    rounded = torch.from_numpy(scores.astype(np.float32)).bfloat16()
    save_torch({"logits": rounded, "labels": torch.from_numpy(labels)}, tmp_path / "a.safetensors")
    read = read_predictions(tmp_path / "a.safetensors").load().scores
    np.testing.assert_array_equal(read, rounded.float().numpy())


def test_bfloat16_probabilities_are_normalized(tmp_path: Path) -> None:
    # Each value is rounded up by almost the largest rounding error, so their sum is off by 2^-8.
    row = torch.tensor([64.26 / 8192] * 125 + [1 - 125 * 64.26 / 8192], dtype=torch.float64).bfloat16()
    wide = row.double().numpy()
    assert abs(wide.sum() - 1) > 3e-3
    tensors = {"probs": row.repeat(30, 1), "labels": torch.zeros(30, dtype=torch.long)}
    path = tmp_path / "a.safetensors"
    save_torch(tensors, path)
    found = read_predictions(path)
    np.testing.assert_allclose(found.load().scores, np.tile(wide / wide.sum(), (30, 1)), rtol=1e-6)
    # Functions that require probabilities accept them.
    assert evaluate_file(found).result.nll == pytest.approx(-np.log(wide[0] / wide.sum()), rel=1e-5)
    rescale(found, ss.TemperatureScaling(2.0))
    save_torch({**tensors, "probs": (row * 0.97).repeat(30, 1)}, path)
    with pytest.raises(ValueError, match=r"row 0 \(counted from 0\) has values .* and sum 0.97"):
        read_predictions(path).load()


@settings(max_examples=30, deadline=None)
@given(data=st.data(), name=st.sampled_from(list(WRITERS)))
def test_finite_logits_are_read_bit_for_bit(
    data: st.DataObject, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shape = data.draw(st.tuples(st.integers(1, 9), st.integers(2, 5)))
    finite = st.floats(allow_nan=False, allow_infinity=False)
    scores = data.draw(hnp.arrays(np.float64, shape, elements=finite))
    labels = data.draw(hnp.arrays(np.int64, shape[0], elements=st.integers(0, shape[1] - 1)))
    rows = data.draw(st.integers(1, 10))
    path, options = WRITERS[name](tmp_path_factory.mktemp("any"), scores, labels, "logits")
    chunks = list(read_predictions(path, **options).chunks(rows))
    np.testing.assert_array_equal(np.concatenate([chunk.scores for chunk in chunks]), scores)
    np.testing.assert_array_equal(np.concatenate([chunk.labels for chunk in chunks]), labels)


def test_labels_can_be_class_names(tmp_path: Path) -> None:
    scores, labels = predictions(11, 3, "probs")
    names = np.array(["cat", "dog, wet", "vache à lait"])
    np.savez(tmp_path / "a.npz", probs=scores, labels=names[labels], class_names=names)
    np.savez(tmp_path / "b.npz", probs=scores, labels=np.char.encode(names[labels], "utf-8"), class_names=names)
    (tmp_path / "c.csv").write_text(csv_text(scores, names[labels], "probs", names.tolist()), encoding="utf-8")
    (tmp_path / "d.csv").write_text("\ufeff" + csv_text(scores, labels, "probs", names.tolist()), encoding="utf-8")
    columns = {f"prob_{name}": scores[:, index] for index, name in enumerate(names)}
    pq.write_table(pa.table({**columns, "label": names[labels].tolist()}), tmp_path / "e.parquet")
    coded = pa.array(names[labels].tolist()).dictionary_encode()
    pq.write_table(pa.table({**columns, "label": coded}), tmp_path / "f.parquet")
    save_file({"probs": scores, "labels": labels}, tmp_path / "g.safetensors", metadata(names.tolist()))
    for file in sorted(tmp_path.iterdir()):
        found = read_predictions(file)
        assert found.class_names == tuple(names), file
        np.testing.assert_array_equal(found.load().labels, labels, err_msg=str(file))


def test_numbered_columns_are_sorted_by_number(tmp_path: Path) -> None:
    # Sorted as text and counted from 1, as some tools do. With labels_are="names", label 10 is the column prob_10.
    headings = ["prob_1", "prob_10", "prob_2"]
    text = ",".join(["label", *headings]) + "\n10,0.1,0.8,0.1\n1,0.6,0.1,0.3\n"
    (tmp_path / "a.csv").write_text(text)
    columns = {"prob_1": [0.1, 0.6], "prob_10": [0.8, 0.1], "prob_2": [0.1, 0.3]}
    pq.write_table(pa.table({"label": [10, 1], **columns}), tmp_path / "a.parquet")
    for file in ("a.csv", "a.parquet"):
        found = read_predictions(tmp_path / file, labels_are="names")
        assert found.class_names == ("1", "2", "10")
        chunk = found.load()
        assert chunk.scores.tolist() == [[0.1, 0.1, 0.8], [0.6, 0.3, 0.1]]
        assert chunk.labels.tolist() == [2, 0]


def test_scores_and_labels_with_other_names(tmp_path: Path) -> None:
    logits, labels = predictions(6, 3, "logits")
    probs, _ = predictions(6, 3, "probs")
    np.savez(tmp_path / "a.npz", logits=logits, probabilities=probs, z=logits * 2, y=labels)
    found = read_predictions(tmp_path / "a.npz", kind="probs", labels="y")
    np.testing.assert_array_equal(found.load().scores, probs)
    found = read_predictions(tmp_path / "a.npz", kind="logits", scores="z", labels="y")
    np.testing.assert_array_equal(found.load().scores, logits * 2)
    assert read_predictions(tmp_path / "a.npz", scores="logits", labels="y").kind == "logits"

    (tmp_path / "a.csv").write_text("y,s_a,s_b,logit_a,logit_b,prob_a,prob_b\nb,5,6,1,2,0.5,0.5\n")
    for options, scores in [
        ({"kind": "logits"}, [1.0, 2.0]),
        ({"kind": "probs"}, [0.5, 0.5]),
        ({"kind": "logits", "scores": "s_"}, [5.0, 6.0]),
    ]:
        chunk = read_predictions(tmp_path / "a.csv", labels="y", **options).load()  # type: ignore[arg-type]
        assert (chunk.scores.tolist(), chunk.labels.tolist()) == ([scores], [1])
    (tmp_path / "b.csv").write_text("label,0,1\n1,0.25,0.75\n")
    assert read_predictions(tmp_path / "b.csv", kind="probs").load().scores.tolist() == [[0.25, 0.75]]


def test_batches_feed_a_metric(tmp_path: Path) -> None:
    probs, labels = predictions(50, 3, "probs", np.float64)
    np.savez(tmp_path / "a.npz", probs=probs, labels=labels)
    in_parts, at_once = ss.Calibration(), ss.Calibration()
    for batch in read_predictions(tmp_path / "a.npz").batches(7):
        in_parts.update(**batch)
    at_once.update(probs=probs, labels=labels)
    assert in_parts.compute().metrics() == pytest.approx(at_once.compute().metrics(), abs=1e-12)


def test_softmax_of_converted_probabilities(tmp_path: Path) -> None:
    probs = np.array([[0.99, 0.01, 0.0, 0.0], [0.5, 0.25, 0.25, 0.0]], dtype=np.float16)
    np.savez(tmp_path / "a.npz", probs=probs, labels=np.array([0, 1]))
    found = read_predictions(tmp_path / "a.npz")
    logits = torch.from_numpy(found.logits(found.load()))
    expected = np.array([[0.99, 0.01, 0.00025, 0.00025], [0.5, 0.25, 0.25, 0.0005]])  # the zeros of a row share 0.0005
    np.testing.assert_allclose(logits.exp().numpy(), expected, rtol=1e-3)


@given(
    st.lists(st.sampled_from([0.0, 1e-9, 1e-4, 0.003, 0.01, 0.3, 1.0]), min_size=2, max_size=6).filter(any),
    st.sampled_from([np.float32, np.float64]),
)
def test_a_probability_of_0_is_less_than_any_other_of_its_row(row: list[float], dtype: Any) -> None:
    """It depends on its row alone, not on the other rows of the file."""
    probs = np.array([row, [1.0] + [0.0] * (len(row) - 1)], dtype=dtype)
    found = fitted_logits(probs, "probs")
    for values, given_row in zip(np.exp(found.astype(np.float64)), probs, strict=True):
        zero = given_row == 0
        np.testing.assert_allclose(values[~zero], given_row[~zero], rtol=1e-5)
        share = min(0.0005, given_row[~zero].min() / 2)
        np.testing.assert_allclose(values[zero], share / max(1, zero.sum()), rtol=1e-5)
    np.testing.assert_array_equal(found[:1], fitted_logits(probs[:1], "probs"))


def test_predictions_are_written_in_chunks(tmp_path: Path) -> None:
    logits, labels = predictions(20, 3, "logits")
    parts = [(logits[:13], labels[:13]), (logits[13:], labels[13:])]
    write_predictions(tmp_path / "new" / "a.npz", iter(parts), class_names=("a", "b", "ç"))
    found = read_predictions(tmp_path / "new" / "a.npz")
    assert (found.kind, found.class_names) == ("logits", ("a", "b", "ç"))
    np.testing.assert_array_equal(found.load().scores, logits)
    with np.load(tmp_path / "new" / "a.npz", allow_pickle=False) as arrays:
        assert sorted(arrays.files) == ["class_names", "labels", "logits"]
        np.testing.assert_array_equal(arrays["labels"], labels)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.npz"]


def test_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"old")
    logits, labels = predictions(20, 3, "logits")
    with pytest.raises(ValueError, match="20 rows of logits and 19 labels"):
        write_predictions(tmp_path / "a.npz", [(logits, labels), (logits, labels[1:])])
    with pytest.raises(ValueError, match="no predictions to write"):
        write_predictions(tmp_path / "a.npz", [])
    with pytest.raises(ValueError, match=r"must end in \.npz or \.csv"):
        write_predictions(tmp_path / "a.txt", [(logits, labels)])
    assert (tmp_path / "a.npz").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1
