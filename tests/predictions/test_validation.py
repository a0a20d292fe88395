"""Integer labels are class indices in every format, unless the class names make them ambiguous."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from predictions.files import metadata
from singleshot.predictions import read_predictions, write_predictions

SCORES = np.array([[3.0, 2.0, 1.0], [1.0, 3.0, 2.0], [0.0, 0.0, 5.0]])


def written(folder: Path, names: list[str], labels: list[int]) -> list[Path]:
    """Write the same predictions in every format with class names, and with labels as integers and as text."""
    numbers, texts = np.array(labels), [str(label) for label in labels]
    np.savez(folder / "a.npz", logits=SCORES, labels=numbers, class_names=names)
    np.savez(folder / "b.npz", logits=SCORES, labels=np.array(texts), class_names=names)
    save_file({"logits": SCORES, "labels": numbers}, folder / "c.safetensors", metadata(names))
    rows = [[text, *map(str, row)] for text, row in zip(texts, SCORES.tolist(), strict=True)]
    lines = [["label", *(f"logit_{name}" for name in names)], *rows]
    (folder / "d.csv").write_text("\n".join(",".join(line) for line in lines))
    columns: dict[str, Any] = {f"logit_{name}": SCORES[:, place] for place, name in enumerate(names)}
    pq.write_table(pa.table({**columns, "label": labels}), folder / "e.parquet")
    pq.write_table(pa.table({**columns, "label": texts}), folder / "f.parquet")
    return sorted(folder.iterdir())


@pytest.mark.parametrize("names", [["cat", "dog", "cow"], ["0", "1", "2"], ["cat", "1", "cow"]])
def test_numbers_are_indices(names: list[str], tmp_path: Path) -> None:
    for path in written(tmp_path, names, [2, 0, 1]):
        for meaning in (None, "indices"):
            found = read_predictions(path, labels_are=meaning)
            assert found.load().labels.tolist() == [2, 0, 1], path


@pytest.mark.parametrize("names", [["1", "2", "3"], ["-1", "1", "2"], ["cat", "2", "1"], ["01", "02", "03"]])
def test_ambiguous_labels_need_labels_are(names: list[str], tmp_path: Path) -> None:
    for path in written(tmp_path, names, [2, 1, 1]):
        with pytest.raises(ValueError, match=r"could be a class name or an index.*--labels-are names"):
            read_predictions(path).load()
        assert read_predictions(path, labels_are="indices").load().labels.tolist() == [2, 1, 1]
        if "2" in names and "1" in names:
            by_name = [names.index("2"), names.index("1"), names.index("1")]
            assert read_predictions(path, labels_are="names").load().labels.tolist() == by_name


def test_labels_that_contradict_their_stated_meaning(tmp_path: Path) -> None:
    for path in written(tmp_path, ["cat", "dog", "cow"], [2, 0, 1]):
        with pytest.raises(ValueError, match=r"unknown labels '2', '0', '1', first in"):
            read_predictions(path, labels_are="names").load()
    (tmp_path / "a.csv").write_text("label,prob_a,prob_b\na,0.5,0.5\n")
    with pytest.raises(ValueError, match=r"labels must be indices in \[0, 2\); the label in line 2 is 'a'"):
        read_predictions(tmp_path / "a.csv", labels_are="indices").load()
    with pytest.raises(ValueError, match=r"labels_are.*'index'"):
        read_predictions(tmp_path / "a.csv", labels_are="index")  # type: ignore[arg-type]


def test_written_files_state_that_labels_are_indices(tmp_path: Path) -> None:
    write_predictions(tmp_path / "a.npz", [(SCORES, np.array([2, 1, 0]))], class_names=("2", "1", "0"))
    for meaning in (None, "names"):  # the file takes precedence
        found = read_predictions(tmp_path / "a.npz", labels_are=meaning)
        assert found.load().labels.tolist() == [2, 1, 0]


def test_true_and_false_are_the_classes_1_and_0_in_every_table(tmp_path: Path) -> None:
    pq.write_table(pa.table({"label": [True, False], "prob_0": [0.5, 1], "prob_1": [0.5, 0]}), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("label,prob_0,prob_1\nTrue,0.5,0.5\nFalse,1,0\n")
    (tmp_path / "a.jsonl").write_text(
        '{"label": true, "prob_0": 0.5, "prob_1": 0.5}\n{"label": false, "prob_0": 1, "prob_1": 0}\n'
    )
    for name in ("a.parquet", "a.csv", "a.jsonl"):
        assert read_predictions(tmp_path / name).load().labels.tolist() == [1, 0], name
    (tmp_path / "a.csv").write_text("label,prob_cat,prob_dog\nTrue,0.5,0.5\n")
    with pytest.raises(ValueError, match="unknown label 'True'"):
        read_predictions(tmp_path / "a.csv").load()
